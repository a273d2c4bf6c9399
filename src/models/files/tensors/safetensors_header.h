#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "accrue/core/error.h"

namespace accrue::models {

struct TensorEntry {
  std::string name;
  at::ScalarType dtype = at::kFloat;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;  ///< in bytes from the end of the header
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  ///< in the order of the header
  std::map<std::string, std::string> metadata;
};

/// Parses the JSON of a header and checks each entry separately. `file` names the file in errors.
SafetensorsHeader parse_header(std::string_view text, const std::string& file);

/// Throws a usage Error unless the tensors fill the `data_bytes` after the header without overlap,
/// gap or rest.
void check_layout(const SafetensorsHeader& header, std::int64_t data_bytes,
                  const std::string& file);

/// "F32" for at::kFloat. Throws a usage Error naming `what` for a dtype that is not supported in
/// this format here.
std::string_view dtype_name(at::ScalarType dtype, const std::string& what);

/// A usage Error about a file that violates the format; `tensor` may be empty.
Error damaged(const std::string& file, std::string_view tensor, std::string_view expected,
              std::string_view received);

}  // namespace accrue::models
