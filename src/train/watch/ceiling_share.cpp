#include "train/watch/ceiling_share.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/words.h"

namespace accrue::train {

CeilingShare::CeilingShare(Model model, CeilingCache cache, double patience)
    : model_(model),
      cache_(std::move(cache)),
      key_(ceiling_key(model.compute)),
      patience_(patience) {
  if (model_.flops_per_sample > 0) ceiling_ = cache_.find(key_);
}

std::optional<double> CeilingShare::of(std::int64_t samples, double seconds) {
  if (!ceiling_ || samples == 0 || seconds <= 0) return std::nullopt;
  const double rate =
      static_cast<double>(model_.flops_per_sample) * static_cast<double>(samples) / seconds;
  fastest_ = std::max(fastest_, rate);
  return std::min(1.0, rate / *ceiling_);
}

std::optional<std::string> CeilingShare::measure_if_due(std::int64_t spare_bytes) {
  const bool is_known = ceiling_ && fastest_ <= *ceiling_;
  const bool is_wanted = model_.flops_per_sample > 0 && !is_known && !was_measured_;
  if (!is_wanted || since_start_.seconds() < patience_) return std::nullopt;
  was_measured_ = true;
  const Stopwatch watch;
  const std::optional<double> measured = measure_ceiling(model_.compute, most_seconds, spare_bytes);
  if (!measured) return std::nullopt;
  ceiling_ = std::max(*measured, fastest_);
  const double seconds = watch.seconds();
  return told_of(seconds, cache_.keep(key_, *ceiling_));
}

std::string CeilingShare::told_of(double seconds, bool is_kept) const {
  return "matrix products reach " + std::to_string(std::llround(*ceiling_ / 1e9)) +
         " GFLOP/s here in " + key_.precision + " with " + counted(key_.threads, "thread") +
         ", measured in " + std::to_string(std::lround(1e3 * seconds)) + " ms" +
         (is_kept ? " and kept in " + cache_.file().string() : "") +
         ": share_of_ceiling is of that";
}

}  // namespace accrue::train
