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

std::string describe(std::span<const batch::UnreadableSample> unreadable) {
  std::string text;
  for (const batch::UnreadableSample& sample : unreadable)
    text += (text.empty() ? "sample " : "; sample ") + std::to_string(sample.sample_id) + ": " +
            sample.reason;
  return text;
}

void require_few_unreadable(std::span<const batch::UnreadableSample> unreadable, double limit,
                            std::span<const batch::Range> micro_batches, std::int64_t window) {
  if (unreadable.empty()) return;
  std::int64_t samples = 0;
  for (const batch::Range& range : micro_batches) samples += range.size();
  const std::int64_t allowed = allowed_quarantined(limit, samples);
  if (std::ssize(unreadable) <= allowed) return;
  throw runtime_error("window " + std::to_string(window),
                      "at most " + std::to_string(allowed) + " of its " + std::to_string(samples) +
                          " samples that cannot be read",
                      std::to_string(unreadable.size()) + ": " + describe(unreadable),
                      "--resume with data.exclude for these files, --resume --accept-data once "
                      "they are mended, or --resume with a larger batch.max_quarantined");
}

void require_running_statistics(const models::Trainable& model,
                                std::span<const batch::UnreadableSample> unreadable,
                                std::int64_t window) {
  for (const NamedParameter& buffer : model.buffers()) {
    const at::Tensor& values = buffer.tensor;
    if (!values.defined() || !at::isFloatingType(values.scalar_type())) continue;
    if (!at::isnan(values).any().item<bool>()) continue;
    const std::string rest = unreadable.empty() ? "" : ": " + describe(unreadable);
    throw runtime_error("window " + std::to_string(window),
                        "running statistics that are numbers, for which model.batchnorm = "
                        "\"micro\" needs two samples in each micro-batch",
                        "NaN in '" + buffer.name + "' after one of 1 sample" + rest,
                        "--resume with another batch.micro or batch.samples, or with data.exclude "
                        "for files that do not decode");
  }
}

}  // namespace accrue::train
