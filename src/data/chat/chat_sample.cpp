#include "data/chat/chat_sample.h"

#include <utility>

#include "accrue/core/error.h"
#include "data/text/line_weight.h"
#include "data/text/sequence_batch.h"

namespace accrue::data {
namespace {

using LineJson = nlohmann::ordered_json;

constexpr const char* chat_line_like =
    R"(lines like {"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]})";

}  // namespace

ChatSampleParser::ChatSampleParser(std::int64_t vocab_bound, const Tokenizer& tokenizer,
                                   std::shared_ptr<const ChatFormat> format)
    : vocab_bound_(vocab_bound),
      tokenizer_(tokenizer),
      format_(std::move(format)),
      setting_(format_->setting),
      encoder_(tokenizer) {}

std::optional<LineProblem> ChatSampleParser::parse(std::string_view text) {
  const LineJson line = LineJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) return LineProblem{"a JSON object", "something else", chat_line_like};
  const auto messages = line.find("messages");
  if (messages == line.end())
    return LineProblem{"an object with \"messages\"", "none of them", chat_line_like};
  const std::optional<float> weight = stated_weight(line);
  if (!weight) return weight_problem(line);
  setting_.tools = line.value("tools", LineJson());
  samples_.clear();
  try {
    for (const ChatSequence& sequence : learned_sequences(format_->chat, *messages, setting_))
      samples_.push_back(sample_of_pieces(sequence, *weight, encoder_));
  } catch (const Error& error) {
    return LineProblem{error.expected(), error.received(), error.suggestion()};
  }
  for (const JsonSample& sample : samples_)
    if (auto problem = id_out_of_range(sample, vocab_bound_, &tokenizer_)) return problem;
  return std::nullopt;
}

JsonSample sample_of_pieces(const ChatSequence& sequence, float weight,
                            Tokenizer::Encoder& encoder) {
  JsonSample sample;
  sample.weight = weight;
  for (const ChatTemplate::Piece& piece : sequence) {
    const std::ptrdiff_t known = std::ssize(sample.tokens);
    encoder.encode(piece.text, sample.tokens, /*goes_on=*/known > 0);
    if (piece.is_learned)
      sample.labels.insert(sample.labels.end(), sample.tokens.begin() + known, sample.tokens.end());
    else
      sample.labels.resize(sample.tokens.size(), ignored_target);
  }
  return sample;
}

bool is_chat_line(std::string_view text) {
  const LineJson line = LineJson::parse(text, nullptr, /*allow_exceptions=*/false);
  return line.is_object() && line.contains("messages");
}

}  // namespace accrue::data
