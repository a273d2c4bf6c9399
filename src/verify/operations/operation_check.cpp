#include "verify/operations/operation_check.h"

#include <algorithm>

#include "verify/text.h"

namespace accrue::proof {

std::optional<OperationCheck> check_operations(ConfigSubject& subject, batch::Range samples) {
  const ComparedOperations operations(subject.parameters());
  OperationCheck check{.returned = subject.pass_by(operations, samples)};
  const std::vector<OperationResult>& results = operations.results();
  if (results.empty()) return std::nullopt;
  const auto ratio = [](const OperationResult& result) { return result.worst.ratio(); };
  const OperationResult& worst = *std::ranges::max_element(results, {}, ratio);
  if (worst.worst.exceeds()) check.differing = worst;
  check.result = {.name = "each operation by itself",
                  .samples = samples.size(),
                  .micro_batches = 1,
                  .parameter = worst.operation + ", " + worst.what,
                  .relative_error = worst.worst.error,
                  .bound = worst.worst.bound,
                  .largest_error = worst.worst.error,
                  .largest_bound = worst.worst.bound,
                  .equal = !worst.worst.exceeds()};
  for (const OperationResult& result : results) {
    if (result.parameter_dim == 0) continue;
    double& noticed =
        result.parameter_dim >= 2 ? check.noticed_of_matrices : check.noticed_of_vectors;
    noticed = std::max(noticed, result.scaling);
  }
  return check;
}

std::string text_of(const OperationResult& differing) {
  return "by itself, from the same inputs, " + differing.operation +
         " gives another result than ATen's operators: " + differing.what + " is " +
         number(differing.factor) + " times theirs (" + number(differing.worst.ratio()) +
         " times the bound)";
}

}  // namespace accrue::proof
