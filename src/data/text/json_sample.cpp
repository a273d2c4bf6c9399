#include "data/text/json_sample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "data/text/sequence_batch.h"
#include "data/text/token_in_words.h"

namespace accrue::data {
namespace {

using nlohmann::json;

LineProblem no_sample(std::string received) {
  return {R"(an object with "text", or "prompt" and "completion", or "input_ids" and "labels")",
          std::move(received), R"(lines like {"text": "..."})"};
}

/// nlohmann's message without its own name, the line (always 1 here) and what it read last, which
/// may be megabytes.
std::string reason_of(const std::string& message) {
  constexpr std::size_t longest = 160;
  std::size_t begin = message.find("] ");
  begin = begin == message.npos ? 0 : begin + 2;
  if (const auto column = message.find("column "); column != message.npos) begin = column;
  std::string reason = message.substr(begin, message.find("; last read", begin) - begin);
  if (reason.size() > longest) reason = reason.substr(0, longest) + "...";
  for (char& c : reason)
    if (c < ' ' || c > '~') c = '?';
  return reason;
}

}  // namespace

bool JsonSample::counts() const {
  return weight > 0 && length() > 0 &&
         std::any_of(labels.begin() + only_predicted(), labels.end(),
                     [](std::int64_t label) { return label != ignored_target; });
}

std::optional<LineProblem> id_out_of_range(const JsonSample& sample, std::int64_t vocab_bound,
                                           const Tokenizer* tokenizer) {
  if (vocab_bound == 0) return std::nullopt;
  for (const std::vector<std::int64_t>* ids : {&sample.tokens, &sample.labels}) {
    const auto bad = std::find_if(ids->begin(), ids->end(),
                                  [vocab_bound](std::int64_t id) { return id >= vocab_bound; });
    if (bad == ids->end()) continue;
    const bool is_text = tokenizer != nullptr && !sample.has_ids;
    const std::string token = ids == &sample.tokens
                                  ? token_in_words(*bad, is_text ? tokenizer : nullptr)
                                  : "label " + std::to_string(*bad);
    return LineProblem{"token ids below the vocabulary of " + std::to_string(vocab_bound),
                       token + " at position " + std::to_string(bad - ids->begin()),
                       is_text ? "a model with as many tokens as its tokenizer, or text without it"
                               : "a larger model.vocab, or data made with this model's tokenizer"};
  }
  return std::nullopt;
}

std::optional<LineProblem> WholeSampleParser::parse(std::string_view line) {
  if (auto problem = parser_->parse(line)) return problem;
  const std::span<const JsonSample> samples = parser_->samples();
  samples_.assign(samples.begin(), samples.end());
  for (JsonSample& sample : samples_) sample.whole = true;
  return std::nullopt;
}

/// Takes the fields that matter out of the parser's events; the rest is passed over, however deep.
class JsonSampleParser::Handler final : public nlohmann::json_sax<json> {
 public:
  enum Field : std::size_t { text, prompt, completion, input_ids, labels, weight, mask, other };
  static std::string quoted(Field field) { return '"' + std::string(field_names[field]) + '"'; }

  void reset() {
    seen_.fill(false);
    ids_.clear();
    labels_.clear();
    weight_ = 1;
    field_ = other;
    depth_ = 0;
    problem_.reset();
  }
  bool has(Field field) const { return seen_[field]; }
  const std::string& string_of(Field field) const { return strings_[field]; }
  const std::vector<std::int64_t>& ids() const { return ids_; }
  const std::vector<std::int64_t>& label_ids() const { return labels_; }
  double weight_value() const { return weight_; }
  std::optional<LineProblem> take_problem() { return std::exchange(problem_, std::nullopt); }

  bool null() override { return is_passed_over() || wrong_type("null"); }
  bool boolean(bool) override { return is_passed_over() || wrong_type("a boolean"); }
  bool number_integer(std::int64_t value) override { return number(value); }
  bool number_unsigned(std::uint64_t value) override {
    constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();
    if (value > largest) return number_float(static_cast<double>(value), {});
    return number(static_cast<std::int64_t>(value));
  }
  bool number_float(double value, const std::string&) override {
    if (is_passed_over()) return true;
    if (depth_ != 1 || field_ != weight) return wrong_type("a number that is no token id");
    return take_weight(value);
  }
  bool string(std::string& value) override {
    if (is_passed_over()) return true;
    if (depth_ != 1 || !is_string(field_)) return wrong_type("a string");
    strings_[field_] = value;
    return true;
  }
  bool binary(binary_t&) override { return wrong_type("binary data"); }

  bool start_object(std::size_t) override {
    if (depth_ > 0 && !is_passed_over()) return wrong_type("an object");
    ++depth_;
    return true;
  }
  bool key(std::string& name) override {
    if (depth_ != 1) return true;
    const auto known = std::find(field_names.begin(), field_names.end(), name);
    field_ = static_cast<Field>(known - field_names.begin());
    if (field_ == other) return true;
    if (seen_[field_]) return refuse(no_sample(quoted(field_) + " twice"));
    return seen_[field_] = true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    const bool is_expected = depth_ == 1 && is_array(field_);
    if (!is_expected && !is_passed_over()) return wrong_type("an array");
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return refuse({"a JSON object", reason_of(error.what()), "an object per line, in UTF-8"});
  }

 private:
  static constexpr std::array<std::string_view, other> field_names{
      "text", "prompt", "completion", "input_ids", "labels", "weight", "attention_mask"};

  static constexpr bool is_array(Field field) {
    return field == input_ids || field == labels || field == mask;
  }
  static constexpr bool is_string(Field field) {
    return field == text || field == prompt || field == completion;
  }

  bool is_passed_over() const { return depth_ > 0 && field_ == other; }

  bool refuse(LineProblem problem) {
    problem_ = std::move(problem);
    return false;
  }

  bool wrong_type(const char* type) {
    if (depth_ == 0) return refuse(no_sample(type));
    return refuse(no_sample(quoted(field_) + (depth_ == 1 ? " is " : " holds ") + type));
  }

  bool number(std::int64_t value) {
    if (is_passed_over()) return true;
    if (depth_ == 1 && field_ == weight) return take_weight(static_cast<double>(value));
    if (depth_ != 2) return wrong_type("a number");
    if (field_ == mask) return take_mask(value);
    if (value < 0 && !(field_ == labels && value == ignored_target))
      return refuse(no_sample(quoted(field_) + " holds " + std::to_string(value)));
    (field_ == input_ids ? ids_ : labels_).push_back(value);
    return true;
  }

  bool take_weight(double value) {
    if (value < 0 || !std::isfinite(static_cast<float>(value)))
      return refuse({"a finite \"weight\" of 0 or more", json(value).dump(), "1, or no weight"});
    weight_ = value;
    return true;
  }

  // Other tools write masks of ones beside samples that are not padded; zeros would mean padding.
  bool take_mask(std::int64_t value) {
    if (value == 1) return true;
    return refuse({"samples without padding",
                   "an \"attention_mask\" that holds " + std::to_string(value),
                   "the sample's own tokens only: padding is added here"});
  }

  std::array<bool, other> seen_{};
  std::array<std::string, completion + 1> strings_;
  std::vector<std::int64_t> ids_, labels_;
  double weight_ = 1;
  Field field_ = other;
  int depth_ = 0;
  std::optional<LineProblem> problem_;
};

JsonSampleParser::JsonSampleParser(std::int64_t vocab_bound, const Tokenizer* tokenizer)
    : vocab_bound_(vocab_bound),
      tokenizer_(tokenizer),
      handler_(std::make_unique<Handler>()),
      encoder_(tokenizer) {}

JsonSampleParser::~JsonSampleParser() = default;

std::optional<LineProblem> JsonSampleParser::parse(std::string_view line) {
  handler_->reset();
  json::sax_parse(line.data(), line.data() + line.size(), handler_.get());
  if (auto problem = handler_->take_problem()) return problem;
  if (auto problem = take_fields()) return problem;
  return id_out_of_range(sample_, vocab_bound_, tokenizer_);
}

std::optional<LineProblem> JsonSampleParser::take_fields() {
  using enum Handler::Field;
  const Handler& line = *handler_;
  const bool is_text = line.has(text);
  const bool is_prompted = line.has(prompt) || line.has(completion);
  const bool is_ids = line.has(input_ids) || line.has(labels);
  if (!is_text && !is_prompted && !is_ids) return no_sample("none of these");
  if (is_text + is_prompted + is_ids > 1) return no_sample("more than one of these");
  for (const auto& [one, needs] : {std::pair{prompt, completion}, std::pair{completion, prompt},
                                   std::pair{input_ids, labels}, std::pair{labels, input_ids}})
    if (line.has(one) && !line.has(needs))
      return no_sample(Handler::quoted(one) + " without " + Handler::quoted(needs));

  sample_.tokens.clear();
  sample_.weight = static_cast<float>(line.weight_value());
  sample_.has_ids = is_ids;
  if (is_ids) {
    sample_.tokens = line.ids();
    sample_.labels = line.label_ids();
    if (sample_.tokens.size() == sample_.labels.size()) return std::nullopt;
    return no_sample(std::to_string(sample_.tokens.size()) + " input_ids and " +
                     std::to_string(sample_.labels.size()) + " labels");
  }
  encoder_.begin(sample_.tokens);
  if (is_prompted) encoder_.add(line.string_of(prompt), sample_.tokens);
  const std::size_t ignored = is_prompted ? sample_.tokens.size() : 0;
  encoder_.add(line.string_of(is_text ? text : completion), sample_.tokens);
  encoder_.end(sample_.tokens);
  sample_.labels = sample_.tokens;
  std::fill_n(sample_.labels.begin(), ignored, ignored_target);
  return std::nullopt;
}

}  // namespace accrue::data
