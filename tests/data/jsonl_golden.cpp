// Prints what a JSON lines file becomes, as one JSON object, for jsonl_golden.py:
// jsonl_golden FILE CONTEXT (padded|packed)

#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "accrue/data/source.h"

namespace {

nlohmann::json rows_of(const at::Tensor& matrix) {
  nlohmann::json rows = nlohmann::json::array();
  const auto* values = matrix.const_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < matrix.size(0); ++row, values += matrix.size(1))
    rows.push_back(std::vector<std::int64_t>(values, values + matrix.size(1)));
  return rows;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const auto source = accrue::data::open_source({.globs = {arguments[1]},
                                                 .context = std::stoll(arguments[2]),
                                                 .packing = std::string(arguments[3]) == "packed"},
                                                "data");
  std::vector<std::int64_t> all(static_cast<std::size_t>(source->size()));
  std::iota(all.begin(), all.end(), 0);
  const accrue::batch::MicroBatch micro = source->fetch(all);
  nlohmann::json spans = nlohmann::json::array();
  for (const accrue::SampleSpan& span : micro.spans)
    spans.push_back({span.row, span.begin, span.end});
  std::cout << nlohmann::json{{"inputs", rows_of(micro.inputs)},
                              {"targets", rows_of(micro.targets)},
                              {"spans", spans},
                              {"tokens", micro.tokens}};
}
