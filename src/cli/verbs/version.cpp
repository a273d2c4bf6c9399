#include "accrue/version.h"

#include <ATen/Version.h>
#include <torch/version.h>

#include "cli/arguments/commands.h"
#include "data/tokenizer/unicode/character_properties.h"
#include "kernels/gemm/gemm.h"

namespace accrue::cli {

std::string version_text() {
  return std::string("accrue ") + version + "\nlibtorch " + TORCH_VERSION + "\ngemm " +
         kernels::gemm_backend() + "\ncompiler " + ACCRUE_COMPILER + "\nisa " +
         at::get_cpu_capability() + "\nunicode " + std::string(data::unicode_version()) +
         " (patterns of tokenizers)";
}

}  // namespace accrue::cli
