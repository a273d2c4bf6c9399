#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accrue/verify/report.h"
#include "verify/config/config_subject.h"
#include "verify/operations/compared_operations.h"
#include "verify/power.h"

namespace accrue::proof {

/// The result of a pass in which each single operation was compared.
struct OperationCheck {
  SplitResult result;                        ///< of the operation nearest to its bound
  std::optional<OperationResult> differing;  ///< that operation, if it exceeds its bound
  Gradients returned;                        ///< by the kernels, to autograd
  std::vector<SmallestFault> noticed;        ///< by single operations, of parameters' gradients
};

/// Nothing for a model without operations that accrue runs. `native` are accrue's kernels.
std::optional<OperationCheck> check_operations(
    ConfigSubject& subject, batch::Range samples,
    const kernels::Operations& native = kernels::native_operations());

/// "by itself, from the same inputs, mlp_gelu gives ..."
std::string text_of(const OperationResult& differing);

}  // namespace accrue::proof
