#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "accrue/core/histogram.h"

/// TensorBoard's input: its Event messages, serialised (tensorboard/compat/proto/event.proto and
/// what it includes, as of TensorBoard 2.21). Strings that are not UTF-8 are repaired, since one of
/// them makes a whole message unreadable.
namespace accrue::observe {

/// The position of an event in a run: Unix time in seconds, and the optimizer step.
struct EventPlace {
  double time = 0;
  std::int64_t step = 0;
};

struct Scalar {
  std::string tag;
  float value = 0;
};

/// Markdown under a tag.
struct Text {
  std::string tag;
  std::string markdown;
};

/// A value of the HParams page.
struct HyperParameter {
  std::string name;
  std::variant<bool, double, std::string> value;
};

/// The first event of a file.
std::string version_event(double time);
/// Makes TensorBoard discard this step and later ones.
std::string restart_event(const EventPlace& place);
std::string scalars_event(const EventPlace& place, std::span<const Scalar> scalars);
std::string texts_event(const EventPlace& place, std::span<const Text> texts);
/// Writes each under `prefix` + its name.
std::string histograms_event(const EventPlace& place, const std::string& prefix,
                             std::span<const NamedHistogram> histograms);
/// These two begin and end a run on the HParams page.
std::string session_start_event(const EventPlace& place,
                                std::span<const HyperParameter> hyper_parameters);
std::string session_done_event(const EventPlace& place);

}  // namespace accrue::observe
