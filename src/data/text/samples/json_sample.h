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
#include "data/json/line_problem.h"
#include "data/text/samples/sample_encoder.h"

namespace accrue::data {

class LineFields;

/// One line's sample, before the shift that makes inputs and targets from it.
struct JsonSample {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t>
      labels;  ///< in parallel to `tokens`: what position i-1 predicts, or -100
  float weight = 1;
  bool has_ids = false;  ///< the tokens are from "input_ids", not from text
  bool whole = false;    ///< all tokens are inputs: labels are at their own positions

  /// The last token is not an input if it is predicted from those before.
  std::int64_t only_predicted() const { return whole ? 0 : 1; }
  /// The number of inputs, and of targets.
  std::int64_t length() const { return tokens.empty() ? 0 : std::ssize(tokens) - only_predicted(); }
  /// Whether any term of the loss counts.
  bool counts() const;
};

/// The first id or label of a sample that is not below `vocab_bound`, with its token's text if
/// `tokenizer`, which may be null, made it; none if the bound is 0.
std::optional<LineProblem> id_out_of_range(const JsonSample& sample, std::int64_t vocab_bound,
                                           const Tokenizer* tokenizer);

/// The tool whose form a line has.
enum class LineForm {
  own,
  alpaca,   ///< "instruction", "input" and "output"
  sharegpt  ///< "conversations"
};

/// Makes samples of lines, one line after the other into the same buffers.
class SampleParser {
 public:
  virtual ~SampleParser() = default;
  /// Makes samples() of `line`, or returns the problem that prevents it.
  virtual std::optional<LineProblem> parse(std::string_view line) = 0;
  /// The samples of the line, at least one; most forms of lines have exactly one.
  virtual std::span<const JsonSample> samples() const = 0;
  /// How many consecutive ones are one sample of the source: 2 for a pair.
  virtual std::int64_t sequences_per_sample() const { return 1; }
  /// The keys of the line that were not read.
  virtual std::span<const std::string> unread_keys() const { return {}; }
  virtual LineForm form() const { return LineForm::own; }
};

/// Makes the samples of another parser whole.
class WholeSampleParser final : public SampleParser {
 public:
  explicit WholeSampleParser(std::unique_ptr<SampleParser> parser) : parser_(std::move(parser)) {}

  std::optional<LineProblem> parse(std::string_view line) override;
  std::span<const JsonSample> samples() const override { return samples_; }
  std::span<const std::string> unread_keys() const override { return parser_->unread_keys(); }
  LineForm form() const override { return parser_->form(); }

 private:
  std::unique_ptr<SampleParser> parser_;
  std::vector<JsonSample> samples_;
};

/// Reads lines with "text", or "prompt" and "completion", or "input_ids" and "labels", or
/// "instruction" and "output" (Alpaca): a sample each, or several if ids contain several.
class JsonSampleParser final : public SampleParser {
 public:
  /// The most samples of a line.
  static constexpr std::int64_t most_samples = 65'535;

  /// Ids and labels must be below `vocab_bound`, unless it is 0. `tokenizer`, which outlives this,
  /// tokenizes text; if it is null the tokens are bytes.
  explicit JsonSampleParser(std::int64_t vocab_bound, const Tokenizer* tokenizer = nullptr);
  ~JsonSampleParser() override;

  std::optional<LineProblem> parse(std::string_view line) override;
  std::span<const JsonSample> samples() const override;
  std::span<const std::string> unread_keys() const override { return unread_keys_; }
  LineForm form() const override { return form_; }
  /// All tokens of the line.
  const JsonSample& sample() const { return sample_; }

 private:
  std::optional<LineProblem> take_fields();
  std::optional<LineProblem> take_ids();
  std::optional<LineProblem> take_masks();
  std::optional<LineProblem> take_packed_samples();
  std::optional<LineProblem> take_alpaca();
  void add_fields_of_other_forms();
  /// `given`, if there is any, is not learned.
  void take_text(std::optional<std::string_view> given, std::string_view learned);

  std::int64_t vocab_bound_;
  const Tokenizer* tokenizer_;
  std::unique_ptr<LineFields> fields_;
  SampleEncoder encoder_;
  JsonSample sample_;
  std::vector<JsonSample> packed_;  ///< the samples of the line if it has several
  std::vector<std::string> unread_keys_;
  LineForm form_ = LineForm::own;
};

}  // namespace accrue::data
