#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace accrue {

/// A number of input tokens without padding. `Tokens{524'288}` is an effective batch size.
struct Tokens {
  std::int64_t count = 0;
  auto operator<=>(const Tokens&) const = default;
};

/// A number of samples: sequences, images, rows.
struct Samples {
  std::int64_t count = 0;
  auto operator<=>(const Samples&) const = default;
};

struct Bytes {
  std::int64_t count = 0;
  auto operator<=>(const Bytes&) const = default;
};

/// Parses "6GiB", "512 MiB", "1.5 GB" or "4096 B". Binary units are powers of 1024, decimal units
/// powers of 1000. Throws a usage Error naming `what` for any other text. A number without a unit
/// is also an error, because its unit is unknown.
Bytes parse_bytes(std::string_view text, std::string_view what);

/// 1536 -> "1.5 KiB": for people, three significant digits.
std::string format_bytes(std::int64_t bytes);
/// Rounds up, so that parse_bytes() of the result is never less than `bytes`. `bytes` must not be
/// negative.
std::string format_bytes_rounded_up(std::int64_t bytes);
/// 12'345'678 -> "12.3 M": for people.
std::string format_count(double count);
/// 3725.4 -> "1h02m", 65 -> "1m05s", 4.2 -> "4.2s".
std::string format_duration(double seconds);

/// A time in the form used in configs: 300 -> "5 min", 5400 -> "1.5 h", 0.25 -> "0.25 s".
std::string format_seconds(double seconds);

/// A position or length in a run, in the form used in configs. Plain numbers are steps. "200
/// steps", "10 M tokens", "1%", "3 epochs"; "10 min", "2 h", "90 s" where time is allowed.
struct Duration {
  enum class Unit { steps, tokens, percent, epochs, seconds };
  double value = 0;
  Unit unit = Unit::steps;
  bool operator==(const Duration&) const = default;
};

/// Returns nothing if the text is not a duration.
std::optional<Duration> try_parse_duration(std::string_view text);
/// Throws a usage Error naming `what` (a config key) if the text is not a duration.
Duration parse_duration(std::string_view text, std::string_view what);

/// The facts of a run that convert a Duration to steps.
struct Horizon {
  std::int64_t total_steps = 0;  ///< the run's length
  double tokens_per_step = 0;    ///< input tokens of one optimizer step
  double steps_per_epoch = 0;
};

/// The number of steps of `duration` in a run, rounded to the nearest step. Throws a usage Error
/// naming `what` if the unit is seconds.
std::int64_t to_steps(const Duration& duration, const Horizon& horizon, std::string_view what);

}  // namespace accrue
