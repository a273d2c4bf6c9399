#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/chat/conversation/learned_pieces.h"
#include "data/chat/format/chat_format.h"
#include "data/text/samples/json_sample.h"

namespace accrue::data {

/// Makes samples of lines with conversations (read_chat_line()): the template's text, of which the
/// assistant's words are learned. A line is one sample, or one for each turn that later turns do
/// not show unchanged (learned_sequences()). Learned and given parts are tokenized separately, as
/// when a model answers, each as a continuation of the text before it.
class ChatSampleParser final : public SampleParser {
 public:
  /// Ids must be below `vocab_bound`, unless it is 0. `tokenizer` outlives this.
  ChatSampleParser(std::int64_t vocab_bound, const Tokenizer& tokenizer,
                   std::shared_ptr<const ChatFormat> format);

  std::optional<LineProblem> parse(std::string_view line) override;
  std::span<const JsonSample> samples() const override { return samples_; }
  std::span<const std::string> unread_keys() const override { return unread_keys_; }
  LineForm form() const override { return form_; }

 private:
  std::int64_t vocab_bound_;
  const Tokenizer& tokenizer_;
  std::shared_ptr<const ChatFormat> format_;
  Tokenizer::Encoder encoder_;
  std::vector<JsonSample> samples_;
  std::vector<std::string> unread_keys_;
  LineForm form_ = LineForm::own;
};

/// A text by pieces as a sample, with the learned pieces as its labels.
JsonSample sample_of_pieces(const ChatSequence& sequence, float weight,
                            Tokenizer::Encoder& encoder);

}  // namespace accrue::data
