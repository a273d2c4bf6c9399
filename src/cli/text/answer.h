#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/text/text_model.h"
#include "models/generation/generate.h"

namespace accrue::cli {

/// Why a model's text ends.
enum class Stopped { length, eos, stop };

struct AnswerOptions {
  /// End tokens and rules are those of the model, with the following changes.
  models::GenerateOptions generate = {.temperature = 0.8};
  std::optional<double> repetition_penalty = {};     ///< replaces the model's
  std::optional<std::int64_t> no_repeat_ngram = {};  ///< replaces the model's
  std::vector<std::string> stop = {};                ///< texts before which the answer ends
};

/// The text that a model added to a prompt.
struct Answer {
  std::string text;
  std::int64_t tokens = 0, prompt_tokens = 0;
  Stopped stopped = Stopped::length;
  /// From the first added token on; none if there are fewer than two.
  std::optional<double> tokens_per_second = {};
};

/// Receives text as it arrives.
using TextCallback = std::function<void(std::string_view)>;

/// Lets the model continue `prompt`. `tell` gets the answer's text piece by piece; `tell_prompt`,
/// if it is not empty, that of the prompt before it.
Answer make_answer(const TextModel& text_model, models::Decoding& decoding,
                   const std::vector<std::int64_t>& prompt, const AnswerOptions& options,
                   const TextCallback& tell, const TextCallback& tell_prompt = {});

nlohmann::json to_json(const Answer& answer, std::uint64_t seed);

/// Prints the speed on stderr, if that is a terminal.
void note_speed(const Answer& answer);

}  // namespace accrue::cli
