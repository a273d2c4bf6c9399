#include "train/window/quarantine_limits.h"

#include <algorithm>
#include <cmath>

#include "accrue/core/error.h"

namespace accrue::train {
namespace {

std::string describe_quarantined(const LedgerView& ledger) {
  std::string text;
  for (const LedgerEntry& entry : ledger.entries) {
    if (entry.status != MicroStatus::quarantined) continue;
    text += (text.empty() ? "" : "; ") + describe(entry.micro) + ": " + entry.reason;
  }
  return text;
}

}  // namespace

std::int64_t allowed_quarantined(double limit, std::int64_t count) {
  if (limit <= 0) return 0;
  const double allowed = std::floor(limit * static_cast<double>(count));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(allowed));
}

void require_few_quarantined(const LedgerView& ledger, double limit, std::int64_t micro_batches) {
  const std::int64_t allowed = allowed_quarantined(limit, micro_batches);
  const std::int64_t quarantined = ledger.count(MicroStatus::quarantined);
  if (quarantined <= allowed) return;
  throw runtime_error(
      "window " + std::to_string(ledger.window),
      "at most " + std::to_string(allowed) + " of its " + std::to_string(micro_batches) +
          " micro-batches without a finite loss and gradient",
      std::to_string(quarantined) + ": " + describe_quarantined(ledger),
      "looking at these samples, a lower optim.lr, a longer warm-up, --resume from an earlier "
      "checkpoint, or a larger batch.max_quarantined");
}

std::string describe(std::span<const batch::LeftOut> left_out) {
  std::string text;
  for (const batch::LeftOut& sample : left_out)
    text += (text.empty() ? "sample " : "; sample ") + std::to_string(sample.sample_id) + ": " +
            sample.reason;
  return text;
}

void require_few_left_out(std::span<const batch::LeftOut> left_out, double limit,
                          std::span<const batch::Range> parts, std::int64_t window) {
  if (left_out.empty()) return;
  const std::int64_t samples = parts.back().end - parts.front().begin;
  const std::int64_t allowed = allowed_quarantined(limit, samples);
  if (std::ssize(left_out) <= allowed) return;
  throw runtime_error("window " + std::to_string(window),
                      "at most " + std::to_string(allowed) + " of its " + std::to_string(samples) +
                          " samples that cannot be read",
                      std::to_string(left_out.size()) + ": " + describe(left_out),
                      "--resume with data.exclude for these files, --resume --accept-data once "
                      "they are mended, or --resume with a larger batch.max_quarantined");
}

}  // namespace accrue::train
