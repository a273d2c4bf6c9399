#include "data/own_rows.h"

#include <ATen/ATen.h>

#include <string>

#include "accrue/core/error.h"
#include "core/words.h"

namespace accrue::data {
namespace {

void check_rows_of(const std::string& what, const at::Tensor& tensor, std::int64_t rows) {
  if (tensor.defined() && tensor.dim() > 0 && tensor.size(0) == rows) return;
  throw usage_error(kOwnSamples, what + " with a row for each of " + counted(rows, "sample"),
                    tensor.defined() ? c10::str(tensor.sizes()) : std::string("none"),
                    kAskedForOnly);
}

}  // namespace

void check_rows(const batch::MicroBatch& made, std::int64_t rows) {
  check_rows_of("inputs", made.inputs, rows);
  if (made.targets.defined()) check_rows_of("targets", made.targets, rows);
  if (made.weights.defined()) check_rows_of("weights", made.weights, rows);
  for (const auto& [name, column] : made.columns) check_rows_of("column " + name, column, rows);
}

}  // namespace accrue::data
