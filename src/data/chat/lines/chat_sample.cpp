#include "data/chat/lines/chat_sample.h"

#include <utility>

#include "accrue/core/error.h"
#include "data/chat/lines/chat_line.h"
#include "data/json/line_syntax.h"
#include "data/sequence_batch.h"

namespace accrue::data {

ChatSampleParser::ChatSampleParser(std::int64_t vocab_bound, const Tokenizer& tokenizer,
                                   std::shared_ptr<const ChatFormat> format)
    : vocab_bound_(vocab_bound),
      tokenizer_(tokenizer),
      format_(std::move(format)),
      encoder_(tokenizer) {}

std::optional<LineProblem> ChatSampleParser::parse(std::string_view text) {
  ChatLine line = read_chat_line(text, *format_);
  if (line.problem) return problem_in_words(std::move(*line.problem), text);
  unread_keys_ = std::move(line.unread_keys);
  form_ = line.form;
  samples_.clear();
  try {
    for (const ChatSequence& sequence : line.sequences)
      samples_.push_back(sample_of_pieces(sequence, line.weight, encoder_));
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

}  // namespace accrue::data
