#include "optim/loss_scale.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "accrue/core/error.h"

namespace accrue::optim {
namespace {

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::isfinite(value) && value > 0 && std::frexp(value, &exponent) == 0.5;
}

[[noreturn]] void refuse(const std::string& expected, double received,
                         const std::string& suggestion) {
  std::ostringstream text;
  text << received;
  throw usage_error("loss scale", expected, text.str(), suggestion);
}

void check(const LossScaler::Options& options) {
  const auto power = [](double value, const char* name) {
    if (!is_power_of_two(value))
      refuse(std::string(name) + " a power of two", value, "its default");
  };
  power(options.initial_scale, "initial_scale");
  power(options.growth_factor, "growth_factor");
  power(options.backoff_factor, "backoff_factor");
  power(options.min_scale, "min_scale");
  power(options.max_scale, "max_scale");
  if (options.growth_factor <= 1) refuse("growth_factor above 1", options.growth_factor, "2");
  if (options.backoff_factor >= 1) refuse("backoff_factor below 1", options.backoff_factor, "0.5");
  if (options.growth_interval < 1)
    refuse("growth_interval of at least 1", static_cast<double>(options.growth_interval), "2000");
  if (options.initial_scale < options.min_scale || options.initial_scale > options.max_scale)
    refuse("initial_scale within min_scale and max_scale", options.initial_scale, "1024");
}

}  // namespace

LossScaler::LossScaler(const Options& options) : options_(options) {
  check(options_);
  state_.scale = options_.initial_scale;
}

LossScaler::Verdict LossScaler::overflowed() {
  const double lower = std::max(options_.min_scale, state_.scale * options_.backoff_factor);
  if (!options_.dynamic || lower == state_.scale) return Verdict::quarantine;
  state_ = {.scale = lower, .good_windows = 0};
  return Verdict::replay;
}

void LossScaler::window_done() {
  if (!options_.dynamic || ++state_.good_windows < options_.growth_interval) return;
  state_ = {.scale = std::min(options_.max_scale, state_.scale * options_.growth_factor),
            .good_windows = 0};
}

void LossScaler::load(const State& state) {
  if (!is_power_of_two(state.scale) || state.scale < options_.min_scale ||
      state.scale > options_.max_scale)
    refuse("a power of two within min_scale and max_scale", state.scale,
           "the state of a scaler with these options");
  if (state.good_windows < 0 || state.good_windows >= options_.growth_interval)
    refuse("windows counted within growth_interval", static_cast<double>(state.good_windows),
           "the state of a scaler with these options");
  state_ = state;
}

}  // namespace accrue::optim
