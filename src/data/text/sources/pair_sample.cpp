#include "data/text/sources/pair_sample.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>

#include "accrue/core/error.h"
#include "data/chat/conversation/answer_pieces.h"
#include "data/chat/conversation/answered_conversation.h"
#include "data/chat/lines/chat_sample.h"
#include "data/chat/lines/line_setting.h"
#include "data/json/line_json.h"
#include "data/json/line_syntax.h"
#include "data/sequence_batch.h"
#include "data/text/samples/line_keys.h"
#include "data/text/samples/line_weight.h"

namespace accrue::data {
namespace {

using PairJson = nlohmann::ordered_json;

/// In the order of the samples.
constexpr std::array<const char*, 2> answers{"chosen", "rejected"};

LineProblem no_pair(std::string received) {
  return {R"(an object with "prompt", "chosen" and "rejected", texts or lists of messages)",
          std::move(received),
          R"(lines like {"prompt": "...", "chosen": "...", "rejected": "..."})"};
}

std::size_t common_messages(const PairJson& one, const PairJson& other) {
  std::size_t count = 0;
  while (count < std::min(one.size(), other.size()) && one[count] == other[count]) ++count;
  return count;
}

AnsweredConversation conversation_of(const PairJson& line, const char* answer) {
  return answered_conversation(line.value("prompt", PairJson()), line[answer],
                               common_messages(line["chosen"], line["rejected"]));
}

bool has_answers(const PairJson& line, PairJson::value_t type) {
  return std::all_of(answers.begin(), answers.end(), [&](const char* answer) {
    return line.contains(answer) && line[answer].type() == type;
  });
}

std::string in_words(const PairJson& value) {
  if (value.is_null()) return "null";
  return std::string(value.is_array() || value.is_object() ? "an " : "a ") + value.type_name();
}

bool has_labels(const JsonSample& sample) {
  return sample.length() > 0 &&
         std::any_of(sample.labels.begin() + 1, sample.labels.end(),
                     [](std::int64_t label) { return label != ignored_target; });
}

}  // namespace

PairSampleParser::PairSampleParser(std::int64_t vocab_bound, const Tokenizer* tokenizer,
                                   std::shared_ptr<const ChatFormat> chat)
    : vocab_bound_(vocab_bound),
      tokenizer_(tokenizer),
      chat_(std::move(chat)),
      encoder_(tokenizer) {
  if (chat_) of_pieces_.emplace(*tokenizer);
}

std::optional<LineProblem> PairSampleParser::parse(std::string_view text) {
  LineJson read = read_line_json(text);
  if (read.problem) return problem_in_words(std::move(*read.problem), text);
  const PairJson& line = read.value;
  if (!line.is_object()) return no_pair("something else");
  for (const char* const answer : answers)
    if (!line.contains(answer)) return no_pair("none with \"" + std::string(answer) + '"');
  std::variant<float, LineProblem> stated = weight_of_line(line, text);
  if (auto* const problem = std::get_if<LineProblem>(&stated)) return std::move(*problem);
  const float weight = std::get<float>(stated);
  if (has_answers(line, PairJson::value_t::array)) {
    if (auto problem = take_conversations(line, weight)) return problem;
    unread_keys_ = keys_besides(
        line, {"prompt", "chosen", "rejected", "tools", "chat_template_kwargs", "weight"});
  } else {
    if (auto problem = take_texts(line, weight, text)) return problem;
    unread_keys_ = keys_besides(line, {"prompt", "chosen", "rejected", "weight"});
  }
  return check_samples();
}

std::optional<LineProblem> PairSampleParser::take_texts(const PairJson& line, float weight,
                                                        std::string_view text) {
  if (!line.contains("prompt")) return no_pair("none with \"prompt\"");
  const PairJson& prompt = line["prompt"];
  for (const char* const key : {"prompt", "chosen", "rejected"}) {
    const LinePlace place{.key = key};
    if (!line[key].is_string())
      return at_place(no_pair(subject_of(place) + in_words(line[key])), text, place);
  }
  for (std::size_t i = 0; i < answers.size(); ++i)
    samples_[i] = sample_of_text(prompt.get_ref<const std::string&>(),
                                 line[answers[i]].get_ref<const std::string&>(), weight);
  return std::nullopt;
}

JsonSample PairSampleParser::sample_of_text(std::string_view prompt, std::string_view answer,
                                            float weight) {
  JsonSample sample;
  sample.weight = weight;
  encoder_.begin(sample.tokens);
  encoder_.add(prompt, sample.tokens);
  const std::size_t given = sample.tokens.size();
  encoder_.add(answer, sample.tokens);
  encoder_.end(sample.tokens);
  sample.labels = sample.tokens;
  std::fill_n(sample.labels.begin(), given, ignored_target);
  return sample;
}

std::optional<LineProblem> PairSampleParser::take_conversations(const PairJson& line,
                                                                float weight) {
  if (!chat_)
    return LineProblem{"texts, as in the first line", "lists of messages",
                       "data.format = \"chat\" and a tokenizer with a chat template"};
  try {
    const ChatSetting setting = setting_of_line(chat_->setting, line);
    const ChatTemplate chat = chat_->templates->for_tools(setting.tools);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      const AnsweredConversation conversation = conversation_of(line, answers[i]);
      samples_[i] =
          sample_of_pieces(answer_pieces(chat, conversation.messages, conversation.given, setting),
                           weight, *of_pieces_);
    }
  } catch (const Error& error) {
    return LineProblem{error.expected(), error.received(), error.suggestion()};
  }
  return std::nullopt;
}

std::optional<LineProblem> PairSampleParser::check_samples() const {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!has_labels(samples_[i]))
      return LineProblem{"answers of at least a token",
                         "an empty \"" + std::string(answers[i]) + '"', "leaving the line out"};
    if (auto problem = id_out_of_range(samples_[i], vocab_bound_, tokenizer_)) return problem;
  }
  return std::nullopt;
}

bool is_pair_of_conversations(std::string_view text) {
  const PairJson line = PairJson::parse(text, nullptr, /*allow_exceptions=*/false);
  return line.is_object() && has_answers(line, PairJson::value_t::array);
}

}  // namespace accrue::data
