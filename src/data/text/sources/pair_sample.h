#pragma once

#include <array>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/format/chat_format.h"
#include "data/text/samples/json_sample.h"
#include "data/text/samples/sample_encoder.h"

namespace accrue::data {

/// Reads lines with "prompt", "chosen" and "rejected": the two sequences of one sample, the chosen
/// one first (open_source() lists the forms).
class PairSampleParser final : public SampleParser {
 public:
  /// Ids must be below `vocab_bound`, unless it is 0. `tokenizer`, which outlives this, tokenizes
  /// text; if it is null the tokens are bytes. Without a `chat` format, and without a tokenizer,
  /// messages are refused.
  PairSampleParser(std::int64_t vocab_bound, const Tokenizer* tokenizer,
                   std::shared_ptr<const ChatFormat> chat);

  std::optional<LineProblem> parse(std::string_view line) override;
  std::span<const JsonSample> samples() const override { return samples_; }
  std::int64_t sequences_per_sample() const override { return 2; }
  std::span<const std::string> unread_keys() const override { return unread_keys_; }

 private:
  std::optional<LineProblem> take_texts(const nlohmann::ordered_json& line, float weight,
                                        std::string_view text);
  std::optional<LineProblem> take_conversations(const nlohmann::ordered_json& line, float weight);
  std::optional<LineProblem> check_samples() const;
  JsonSample sample_of_text(std::string_view prompt, std::string_view answer, float weight);

  std::int64_t vocab_bound_;
  const Tokenizer* tokenizer_;
  std::shared_ptr<const ChatFormat> chat_;
  SampleEncoder encoder_;
  std::optional<Tokenizer::Encoder> of_pieces_;
  std::array<JsonSample, 2> samples_;
  std::vector<std::string> unread_keys_;
};

/// Whether a line of JSON is a pair whose answers are lists of messages.
bool is_pair_of_conversations(std::string_view line);

}  // namespace accrue::data
