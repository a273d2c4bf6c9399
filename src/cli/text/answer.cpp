#include "cli/text/answer.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "accrue/core/enum_words.h"
#include "cli/output/run_text.h"
#include "cli/output/text_stream.h"
#include "data/chat/format/stop_texts.h"

namespace accrue::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto stopped_words = enum_words<Stopped>(
    {{Stopped::length, "length"}, {Stopped::eos, "eos"}, {Stopped::stop, "stop"}});

/// The rate at which tokens follow the first one.
class TokenClock {
 public:
  void tick() {
    last_ = Clock::now();
    if (count_++ == 0) first_ = last_;
  }
  std::optional<double> rate() const {
    const double seconds = std::chrono::duration<double>(last_ - first_).count();
    if (count_ < 2 || seconds <= 0) return std::nullopt;
    return static_cast<double>(count_ - 1) / seconds;
  }

 private:
  std::int64_t count_ = 0;
  Clock::time_point first_, last_;
};

/// An answer's text, passed on as it arrives.
class StreamedText {
 public:
  StreamedText(std::string& text, const TextCallback& tell) : text_(text), tell_(tell) {}
  void add(const std::string& piece) {
    text_ += piece;
    if (tell_ && !piece.empty()) tell_(piece);
  }

 private:
  std::string& text_;
  const TextCallback& tell_;
};

models::GenerateOptions generate_options(const TextModel& text_model,
                                         const AnswerOptions& options) {
  models::GenerateOptions generate = options.generate;
  generate.end_tokens.insert(generate.end_tokens.end(), text_model.end_tokens.begin(),
                             text_model.end_tokens.end());
  generate.rules = text_model.rules;
  if (options.repetition_penalty) generate.rules.repetition_penalty = *options.repetition_penalty;
  if (options.no_repeat_ngram) generate.rules.no_repeat_ngram = *options.no_repeat_ngram;
  return generate;
}

void note_unseen_beginning(const std::vector<std::int64_t>& prompt, std::int64_t context) {
  if (std::ssize(prompt) > context)
    std::cerr << "note: of " << prompt.size() << " tokens the model sees the last " << context
              << ", its context\n";
}

}  // namespace

Answer make_answer(const TextModel& text_model, models::Decoding& decoding,
                   const std::vector<std::int64_t>& prompt, const AnswerOptions& options,
                   const TextCallback& tell, const TextCallback& tell_prompt) {
  data::StopTexts stops(options.stop);
  models::Generation generation(decoding, prompt, generate_options(text_model, options));
  note_unseen_beginning(prompt, text_model.model->context());
  TextStream stream(text_model.tokenizer.get());
  for (const std::int64_t id : prompt) {
    const std::string piece = stream.add(id);
    if (tell_prompt) tell_prompt(piece);
  }
  Answer answer{.prompt_tokens = std::ssize(prompt)};
  StreamedText told(answer.text, tell);
  TokenClock clock;
  while (!stops.has_stopped()) {
    const std::optional<std::int64_t> token = generation.next();
    if (!token) break;
    clock.tick();
    told.add(stops.add(stream.add(*token)));
  }
  told.add(stops.add(stream.end()));
  told.add(stops.end());
  answer.tokens = std::ssize(generation.tokens()) - answer.prompt_tokens;
  answer.stopped = stops.has_stopped()      ? Stopped::stop
                   : generation.has_ended() ? Stopped::eos
                                            : Stopped::length;
  answer.tokens_per_second = clock.rate();
  return answer;
}

nlohmann::json to_json(const Answer& answer, std::uint64_t seed) {
  nlohmann::json json{{"text", answer.text},
                      {"tokens", answer.tokens},
                      {"prompt_tokens", answer.prompt_tokens},
                      {"stopped", stopped_words.of(answer.stopped)},
                      {"seed", seed}};
  if (answer.tokens_per_second) json["tokens_per_second"] = *answer.tokens_per_second;
  return json;
}

void note_speed(const Answer& answer) {
  if (::isatty(STDERR_FILENO) != 1 || !answer.tokens_per_second) return;
  std::cerr << answer.tokens << " tokens, " << rate_text(*answer.tokens_per_second)
            << " tokens/s\n";
}

}  // namespace accrue::cli
