#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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

  /// The number of inputs, and of targets: the last token is only predicted.
  std::int64_t length() const { return tokens.empty() ? 0 : std::ssize(tokens) - 1; }
  /// Whether any term of the loss counts.
  bool counts() const;
};

/// What is wrong with a line: the parts of an Error.
struct LineProblem {
  std::string expected;
  std::string received;
  std::string suggestion;
};

/// Parses lines one after the other into the same buffers.
class JsonSampleParser {
 public:
  /// Ids and labels must be below `vocab_bound`, unless it is 0. Text becomes tokens as
  /// `tokenizer` says, which outlives this, or is its bytes where that is null.
  explicit JsonSampleParser(std::int64_t vocab_bound, const Tokenizer* tokenizer = nullptr);
  ~JsonSampleParser();

  /// Makes sample() of `line`, or returns what keeps it from being a sample.
  std::optional<LineProblem> parse(std::string_view line);
  const JsonSample& sample() const { return sample_; }

 private:
  class Handler;

  std::optional<LineProblem> take_fields();
  std::optional<LineProblem> check_ids() const;

  std::int64_t vocab_bound_;
  std::unique_ptr<Handler> handler_;
  SampleEncoder encoder_;
  JsonSample sample_;
};

}  // namespace accrue::data
