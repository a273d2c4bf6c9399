#include "cli/text/continuation.h"

#include <algorithm>

#include "accrue/core/error.h"
#include "cli/text/trained_text.h"
#include "data/chat/format/turn_end.h"
#include "models/files/config/generation_config.h"
#include "train/workload/generation_origin.h"

namespace accrue::cli {
namespace {

namespace fs = std::filesystem;

/// The result of `read`; empty if the file is none that this version reads.
template <class Read>
auto if_readable(const Read& read) -> decltype(read()) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::usage) throw;
    return {};
  }
}

nlohmann::ordered_json generation_in(const std::string& text) {
  return models::parsed_config(text).value_or(nlohmann::ordered_json::object());
}

}  // namespace

std::string Continuation::name_of_generation(const train::TrainedModel& trained) {
  return std::string(models::kGenerationConfig) + " of " + trained.config.model.from;
}

Continuation continuation_of(const train::RunDirectory& run, const train::TrainedModel& trained,
                             const models::LanguageModel& model, const std::string& what) {
  Continuation continuation;
  continuation.generation = generation_in(train::generation_of_run(run, trained.config.model));
  continuation.tokenizer_file = tokenizer_file_of(trained);
  if (!trained.tokenizer.empty())
    continuation.tokenizer = data::Tokenizer::open(trained.tokenizer, what);
  else if (!continuation.tokenizer_file.empty())  // the run did not need it
    continuation.tokenizer =
        if_readable([&] { return data::Tokenizer::open(continuation.tokenizer_file, what); });
  std::vector<std::int64_t> ends = models::stated_special_tokens(continuation.generation).ends;
  if (continuation.tokenizer) {
    const data::Tokenizer& tokenizer = *continuation.tokenizer;
    continuation.chat = if_readable([&] { return data::read_chat_format(tokenizer, what); });
    if (continuation.chat)
      continuation.turn_end =
          if_readable([&] { return data::turn_end(*continuation.chat, tokenizer); });
    if (const auto end = continuation.tokenizer->end_of_text()) ends.push_back(*end);
    if (continuation.turn_end) ends.push_back(*continuation.turn_end);
  }
  for (const std::int64_t end : ends)
    if (end < model.vocab() && std::ranges::find(continuation.ends, end) == continuation.ends.end())
      continuation.ends.push_back(end);
  return continuation;
}

}  // namespace accrue::cli
