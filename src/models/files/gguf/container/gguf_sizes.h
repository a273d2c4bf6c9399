#pragma once

#include <c10/util/ArrayRef.h>
#include <c10/util/StringUtil.h>

#include <cstdint>
#include <string>
#include <vector>

#include "accrue/core/error.h"
#include "models/files/gguf/container/gguf_file.h"

namespace accrue::models {

/// Compares a file's tensors with its keys, before more is allocated than the file would fill.
/// Throws usage Errors.
class GgufSizes {
 public:
  /// `fitting` is the suggestion in errors. `file` is kept by reference.
  GgufSizes(const GgufFile& file, const char* fitting) : file_(file), fitting_(fitting) {}

  void expect_matrix(const std::string& name, std::int64_t rows, std::int64_t columns) const {
    const GgufTensor* tensor = file_.find(name);
    const std::vector<std::int64_t> shape{rows, columns};
    if (tensor != nullptr && tensor->shape == shape) return;
    throw usage_error(
        "load " + file_.name() + ", tensor \"" + name + '"',
        c10::str("shape ", c10::IntArrayRef(shape), ", as its keys say"),
        tensor == nullptr ? "no such tensor" : c10::str(c10::IntArrayRef(tensor->shape)), fitting_);
  }

  /// Expects at least as many numbers in all tensors as a model with this many layers has.
  template <class Count>
  void expect_room_for(std::int64_t layers, Count numbers) const {
    Count elements = 0;
    for (const GgufTensor& tensor : file_.tensors())
      elements += static_cast<Count>(tensor.elements);
    if (numbers > elements)
      throw usage_error("load " + file_.name(),
                        "tensors for " + std::to_string(layers) +
                            " layers, as its keys say: " + c10::str(numbers) + " numbers",
                        c10::str(elements), fitting_);
  }

 private:
  const GgufFile& file_;
  const char* fitting_;
};

}  // namespace accrue::models
