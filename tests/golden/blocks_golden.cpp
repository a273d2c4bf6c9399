// The C++ half of the golden test of weights in blocks: reads the file that blocks_golden.py wrote,
// unpacks the blocks, packs the values, and writes the results.
#include <ATen/ATen.h>

#include <cstdio>
#include <exception>
#include <filesystem>

#include "accrue/models/safetensors.h"
#include "kernels/blocks/block_matrix.h"

namespace {

using namespace accrue;

/// blocks/FORMAT becomes fp32/FORMAT and bf16/FORMAT; values/NAME becomes q8_0/NAME and q4_k/NAME.
NamedParameters answers_to(const NamedParameters& request) {
  NamedParameters answers;
  for (const NamedParameter& asked : request) {
    const std::string kind = asked.name.substr(0, asked.name.find('/')),
                      name = asked.name.substr(kind.size());
    if (kind == "blocks") {
      answers.push_back({"fp32" + name, kernels::unpacked(asked.tensor, at::kFloat)});
      answers.push_back({"bf16" + name, kernels::unpacked(asked.tensor, at::kBFloat16)});
      continue;
    }
    for (const auto& [to, format] : {std::pair{"q8_0", kernels::BlockFormat::q8_0},
                                     std::pair{"q4_k", kernels::BlockFormat::q4_k}}) {
      const at::Tensor packed =
          at::empty(kernels::sizes_in_blocks(format, kernels::matrix_size(asked.tensor)),
                    at::TensorOptions().dtype(at::kByte));
      kernels::pack_into(packed, asked.tensor);
      answers.push_back({to + name, packed});
    }
  }
  return answers;
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 2) return 2;
  const std::filesystem::path folder = arguments[1];
  models::write_safetensors(
      folder / "answers.safetensors",
      answers_to(models::read_safetensors(folder / "request.safetensors").tensors));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
