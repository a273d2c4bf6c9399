#include "cli/arguments/first_choice.h"

#include "kernels/gemm/gemm.h"

namespace accrue::cli {

train::MachineFacts machine_facts() { return {.multiplies_bf16 = kernels::multiplies_bf16()}; }

}  // namespace accrue::cli
