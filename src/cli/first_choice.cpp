#include "cli/first_choice.h"

#include "kernels/gemm/gemm.h"

namespace accrue::cli {

train::MachineFacts machine_facts() { return {.multiplies_bf16 = kernels::multiplies_bf16()}; }

std::string in_one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  return text;
}

}  // namespace accrue::cli
