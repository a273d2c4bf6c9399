#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accrue/data/tokenizer.h"
#include "data/text/sample_encoder.h"

namespace accrue::data {

/// One line's sample, before the shift that makes inputs and targets of it.
struct JsonSample {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t>
      labels;  ///< in parallel to `tokens`: what position i-1 predicts, or -100
  float weight = 1;
  bool has_ids = false;  ///< the tokens are those of "input_ids", and not made of text
  bool whole = false;    ///< all tokens are inputs: labels are what stands at their own positions

  /// The last token is no input where it is predicted from those before.
  std::int64_t only_predicted() const { return whole ? 0 : 1; }
  /// The number of inputs, and of targets.
  std::int64_t length() const { return tokens.empty() ? 0 : std::ssize(tokens) - only_predicted(); }
  /// Whether any term of the loss counts.
  bool counts() const;
};

/// What is wrong with a line: the parts of an Error.
struct LineProblem {
  std::string expected;
  std::string received;
  std::string suggestion;
};

/// The first id or label of a sample that is not below `vocab_bound`, with its token's text when
/// `tokenizer`, which may be null, made it; none where the bound is 0.
std::optional<LineProblem> id_out_of_range(const JsonSample& sample, std::int64_t vocab_bound,
                                           const Tokenizer* tokenizer);

/// Makes samples of lines, one after the other into the same buffers.
class SampleParser {
 public:
  virtual ~SampleParser() = default;
  /// Makes samples() of `line`, or returns what keeps it from being any.
  virtual std::optional<LineProblem> parse(std::string_view line) = 0;
  /// Those of the line, at least one; most forms of lines have exactly one.
  virtual std::span<const JsonSample> samples() const = 0;
  /// How many of these, one after the other, are one sample of the source: 2 where it is a pair.
  virtual std::int64_t sequences_per_sample() const { return 1; }
};

/// Makes those of another parser whole.
class WholeSampleParser final : public SampleParser {
 public:
  explicit WholeSampleParser(std::unique_ptr<SampleParser> parser) : parser_(std::move(parser)) {}

  std::optional<LineProblem> parse(std::string_view line) override;
  std::span<const JsonSample> samples() const override { return samples_; }

 private:
  std::unique_ptr<SampleParser> parser_;
  std::vector<JsonSample> samples_;
};

/// Reads lines with "text", or "prompt" and "completion", or "input_ids" and "labels": a sample
/// each.
class JsonSampleParser final : public SampleParser {
 public:
  /// Ids and labels must be below `vocab_bound`, unless it is 0. Text becomes tokens as
  /// `tokenizer` says, which outlives this, or is its bytes where that is null.
  explicit JsonSampleParser(std::int64_t vocab_bound, const Tokenizer* tokenizer = nullptr);
  ~JsonSampleParser() override;

  std::optional<LineProblem> parse(std::string_view line) override;
  std::span<const JsonSample> samples() const override { return {&sample_, 1}; }
  const JsonSample& sample() const { return sample_; }

 private:
  class Handler;

  std::optional<LineProblem> take_fields();

  std::int64_t vocab_bound_;
  const Tokenizer* tokenizer_;
  std::unique_ptr<Handler> handler_;
  SampleEncoder encoder_;
  JsonSample sample_;
};

}  // namespace accrue::data
