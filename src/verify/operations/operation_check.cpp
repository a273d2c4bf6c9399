#include "verify/operations/operation_check.h"

#include <algorithm>

#include "verify/text.h"

namespace accrue::proof {

namespace {

OperationCheck summed_up(const std::vector<OperationResult>& results, batch::Range samples) {
  OperationCheck check;
  const auto ratio = [](const OperationResult& result) { return result.worst.ratio(); };
  const OperationResult& worst = *std::ranges::max_element(results, {}, ratio);
  if (worst.worst.exceeds()) check.differing = worst;
  check.result.name = "each operation by itself";
  check.result.samples = samples.size();
  check.result.micro_batches = 1;
  check.result.parameter = worst.operation + ", " + worst.what;
  check.result.relative_error = check.result.largest_error = worst.worst.error;
  check.result.bound = check.result.largest_bound = worst.worst.bound;
  check.result.equal = !worst.worst.exceeds();
  double of_matrices = 0, of_vectors = 0;
  for (const OperationResult& result : results) {
    if (result.parameter_dim == 0) continue;
    double& noticed = result.parameter_dim >= 2 ? of_matrices : of_vectors;
    noticed = std::max(noticed, result.scaling);
  }
  check.noticed = scaled_faults(of_matrices, of_vectors);
  return check;
}

}  // namespace

std::optional<OperationCheck> check_operations(ConfigSubject& subject, batch::Range samples,
                                               const kernels::Operations& native) {
  const ComparedOperations operations(subject.parameters(), native);
  Gradients returned = subject.pass_by(operations, samples);
  if (operations.results().empty()) return std::nullopt;
  OperationCheck check = summed_up(operations.results(), samples);
  check.returned = std::move(returned);
  return check;
}

std::string text_of(const OperationResult& differing) {
  return "by itself, from the same inputs, " + differing.operation +
         " gives another result than ATen's operators: " + differing.what + " is " +
         number(differing.factor) + " times theirs (" + number(differing.worst.ratio()) +
         " times the bound)";
}

}  // namespace accrue::proof
