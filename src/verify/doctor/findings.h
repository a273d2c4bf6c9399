#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrue/adapt/noise_scale.h"
#include "accrue/core/enum_words.h"
#include "accrue/train/config.h"
#include "train/limits/limit_state.h"

namespace accrue::proof {

enum class Severity {
  error,    ///< training refuses it, or does not learn
  warning,  ///< it trains, but not as intended
  advice,   ///< it could be faster, or safer
  note,     ///< information
};
inline constexpr auto severity_words = enum_words<Severity>({{Severity::error, "error"},
                                                             {Severity::warning, "warning"},
                                                             {Severity::advice, "advice"},
                                                             {Severity::note, "note"}});
constexpr std::string_view to_string(Severity severity) { return severity_words.of(severity); }

/// One finding of the doctor. `id` is stable, for scripts.
struct Finding {
  std::string id;
  Severity severity = Severity::advice;
  std::string message;
  std::string advice;
  std::vector<std::pair<std::string, double>> evidence;  ///< the numbers behind it, by name
};

/// The speed of micro-batches of a size, forward and backward.
struct Speed {
  std::int64_t micro_batch = 0;
  double samples_per_second = 0;
};

/// A limit of the run.
struct LimitFact {
  train::Limit limit;
  std::optional<train::LimitReading> reading;  ///< none for a command, which is not run
};

/// The known facts of a run before it starts. Values that were not measured are absent.
struct RunFacts {
  train::Config config;  ///< with the shape resolved
  std::int64_t parameters = 0;
  std::int64_t train_samples = 0;
  std::int64_t val_samples = 0;
  std::int64_t batch_samples = 0;  ///< of the largest batch that the config states
  double batch_tokens = 0;         ///< 0 if unknown
  std::int64_t micro_batch = 0;
  std::int64_t micro_batches = 0;
  Recompute recompute = Recompute::none;  ///< from the plan
  std::int64_t steps_per_epoch = 0;
  std::int64_t total_steps = 0;
  std::vector<std::string> cut_batch_norms;    ///< at the entrance of a segment
  std::vector<std::string> uncut_batch_norms;  ///< inside a module that cannot be cut
  std::vector<std::string> foreign_dropouts;
  std::vector<std::string> data_remarks;
  std::vector<LimitFact> limits;
  double first_weight = 0;                        ///< of the first window's loss
  double first_terms = 0;                         ///< targets in it, with padding and ignored ones
  std::optional<Speed> speed;                     ///< at the run's micro-batch and precision
  std::optional<Speed> larger_speed;              ///< at the largest that fits
  std::optional<double> bf16_samples_per_second;  ///< at the run's micro-batch
  std::optional<double> fp32_samples_per_second;
  std::vector<double> first_losses;  ///< of the first steps, each before its update
  bool first_steps_are_finite = true;
  std::optional<adapt::NoiseScale> noise;  ///< of the first steps, in the batch's unit
  double noise_batch = 0;                  ///< their batch, in that unit
  bool bf16_instructions = false;          ///< AVX-512 BF16 or AMX
};

/// All findings on such a run, worst first. A pure function.
std::vector<Finding> examine(const RunFacts& facts);

}  // namespace accrue::proof
