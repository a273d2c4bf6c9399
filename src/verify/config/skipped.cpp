#include "verify/config/skipped.h"

#include <algorithm>
#include <string_view>

#include "accrue/core/error.h"

namespace accrue::proof {
namespace {

/// libtorch's error for batch normalisation, directly and through TorchScript.
constexpr std::string_view one_value = "more than 1 value per channel";

bool has_single_sample(const Split& split) {
  return std::ranges::any_of(split.parts, [](batch::Range part) { return part.size() == 1; });
}

}  // namespace

std::optional<std::string> why_one_sample_fails(const std::exception& error) {
  if (std::string_view(error.what()).find(one_value) == std::string_view::npos) return {};
  return "a part of one sample has one value per channel, of which batch normalisation in training "
         "mode takes no variance";
}

bool check_or_skip(Prover& prover, const Split& split, Findings& findings, Report& report) {
  try {
    report.splits.push_back(prover.check(split, findings));
    return true;
  } catch (const std::exception& error) {
    const std::optional<std::string> reason = why_one_sample_fails(error);
    if (!reason || !has_single_sample(split)) throw;
    report.skipped.push_back({split.name, prover.samples().size(), *reason});
    report.complete = false;
    report.left_out.push_back(split.name + ": " + *reason);
    return false;
  }
}

void require_some_split(const Report& report, std::int64_t samples) {
  const auto cuts = [](const SplitResult& split) { return split.micro_batches > 1; };
  if (report.skipped.empty() || std::ranges::any_of(report.splits, cuts)) return;
  throw usage_error("verify",
                    "a batch that can be cut into parts of at least 2 samples, since " +
                        report.skipped.front().reason,
                    std::to_string(samples) + " samples", "a batch of at least 4");
}

}  // namespace accrue::proof
