#include "data/text/samples/json_sample.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "data/sequence_batch.h"
#include "data/text/samples/line_fields.h"
#include "data/text/samples/packed_lengths.h"
#include "data/text/samples/token_in_words.h"

namespace accrue::data {
namespace {

/// The problem of a line that has none of the forms: it may resemble a conversation.
LineProblem no_form(const LineFields& line) {
  using enum LineFields::Field;
  for (const auto& [one, needs] : {std::pair{instruction, output}, std::pair{output, instruction}})
    if (line.has(one))
      return no_sample(LineFields::quoted(one) + " without " + LineFields::quoted(needs));
  for (const char* const key : {"messages", "conversations"})
    if (std::ranges::find(line.unknown_keys(), key) != line.unknown_keys().end()) {
      LineProblem problem = no_sample('"' + std::string(key) + '"');
      problem.suggestion = "data.format = \"chat\", which reads conversations";
      return problem;
    }
  LineProblem problem = no_sample("none of these");
  problem.suggestion += ", or data.format = \"text\" if lines are to be learned as they stand";
  return problem;
}

/// Reports fields without another one that they need.
std::optional<LineProblem> lonely_field(const LineFields& line) {
  using enum LineFields::Field;
  for (const auto& [one, needs] :
       {std::pair{prompt, completion}, std::pair{completion, prompt}, std::pair{labels, input_ids}})
    if (line.has(one) && !line.has(needs))
      return no_sample(LineFields::quoted(one) + " without " + LineFields::quoted(needs));
  for (const LineFields::Field field :
       {completion_mask, assistant_masks, loss_mask, position_ids, seq_lengths})
    if (line.has(field) && !line.has(input_ids))
      return no_sample(LineFields::quoted(field) + " without " + LineFields::quoted(input_ids));
  return std::nullopt;
}

/// The problem of a list whose length differs from that of the ids.
LineProblem other_length(const LineFields& line, LineFields::Field field) {
  const std::string ids =
      std::to_string(line.list_of(LineFields::input_ids).size()) + " input_ids and ";
  const std::string count = std::to_string(line.list_of(field).size());
  if (field == LineFields::labels) return no_sample(ids + count + " labels");
  return {LineFields::quoted(field) + " with one element for each of the input_ids",
          ids + count + " in " + LineFields::quoted(field),
          "a list as long as input_ids, or leaving the key out"};
}

/// The lengths of the samples in a line's ids; empty if they are one sample without a description.
PackedLengths lengths_of_packed(const LineFields& line) {
  using enum LineFields::Field;
  std::vector<std::int64_t> none;
  if (!line.has(position_ids) && !line.has(seq_lengths)) return none;
  const std::int64_t tokens = std::ssize(line.list_of(input_ids));
  if (line.has(position_ids) && std::ssize(line.list_of(position_ids)) != tokens)
    return other_length(line, position_ids);
  PackedLengths by_positions = lengths_by_positions(line.list_of(position_ids));
  if (!line.has(seq_lengths) || std::holds_alternative<LineProblem>(by_positions))
    return by_positions;
  PackedLengths stated = lengths_by_statement(line.list_of(seq_lengths), tokens);
  if (!line.has(position_ids) || std::holds_alternative<LineProblem>(stated)) return stated;
  if (std::get<0>(stated) == std::get<0>(by_positions)) return stated;
  return LineProblem{R"("position_ids" and "seq_lengths" that tell of the same samples)", "others",
                     "leaving one of them out"};
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

JsonSampleParser::JsonSampleParser(std::int64_t vocab_bound, const Tokenizer* tokenizer)
    : vocab_bound_(vocab_bound),
      tokenizer_(tokenizer),
      fields_(std::make_unique<LineFields>()),
      encoder_(tokenizer) {}

JsonSampleParser::~JsonSampleParser() = default;

std::span<const JsonSample> JsonSampleParser::samples() const {
  if (packed_.empty()) return {&sample_, 1};
  return packed_;
}

std::optional<LineProblem> JsonSampleParser::parse(std::string_view line) {
  packed_.clear();
  form_ = LineForm::own;
  if (auto problem = fields_->read(line)) return problem;
  unread_keys_ = fields_->unknown_keys();
  if (auto problem = take_fields()) return problem;
  add_fields_of_other_forms();
  if (auto problem = id_out_of_range(sample_, vocab_bound_, tokenizer_)) return problem;
  return take_packed_samples();
}

/// Alpaca's tables have a text of all fields beside them; other lines have names of Alpaca's.
void JsonSampleParser::add_fields_of_other_forms() {
  const auto add = [this](LineFields::Field field) {
    if (fields_->has(field)) unread_keys_.emplace_back(LineFields::name_of(field));
  };
  if (form_ == LineForm::alpaca)
    add(LineFields::text);
  else
    std::ranges::for_each(LineFields::fields_of_alpaca, add);
}

std::optional<LineProblem> JsonSampleParser::take_fields() {
  using enum LineFields::Field;
  const LineFields& line = *fields_;
  const bool is_alpaca = line.has(instruction) && line.has(output);
  const bool is_text = line.has(text) && !is_alpaca;
  const bool is_prompted = line.has(prompt) || line.has(completion);
  const bool is_ids = line.has(input_ids) || line.has(labels);
  if (!is_text && !is_prompted && !is_ids && !is_alpaca) return no_form(line);
  if (is_text + is_prompted + is_ids + is_alpaca > 1) return no_sample("more than one of these");
  if (auto problem = lonely_field(line)) return problem;
  sample_.weight = static_cast<float>(line.weight_value());
  sample_.has_ids = is_ids;
  if (is_ids) return take_ids();
  if (is_alpaca) return take_alpaca();
  if (is_prompted)
    take_text(line.text_of(prompt), line.text_of(completion));
  else
    take_text(std::nullopt, line.text_of(text));
  return std::nullopt;
}

/// Labels are the ids themselves if only masks state what is learned.
std::optional<LineProblem> JsonSampleParser::take_ids() {
  using enum LineFields::Field;
  const LineFields& line = *fields_;
  const bool is_masked = std::ranges::any_of(
      LineFields::masks_of_loss, [&](LineFields::Field mask) { return line.has(mask); });
  if (!line.has(labels) && !is_masked)
    return no_sample(LineFields::quoted(input_ids) + " without " + LineFields::quoted(labels));
  sample_.tokens = line.list_of(input_ids);
  sample_.labels = line.list_of(line.has(labels) ? labels : input_ids);
  if (sample_.tokens.size() != sample_.labels.size()) return other_length(line, labels);
  return take_masks();
}

/// A token is learned if no mask has a 0 for it: as TRL combines them.
std::optional<LineProblem> JsonSampleParser::take_masks() {
  for (const LineFields::Field field : LineFields::masks_of_loss) {
    if (!fields_->has(field)) continue;
    const std::vector<std::int64_t>& mask = fields_->list_of(field);
    if (mask.size() != sample_.tokens.size()) return other_length(*fields_, field);
    for (std::size_t i = 0; i < mask.size(); ++i)
      if (mask[i] == 0) sample_.labels[i] = ignored_target;
  }
  return std::nullopt;
}

/// Samples that share a line's ids do not see each other, as in TRL: nothing predicts the first
/// token of one.
std::optional<LineProblem> JsonSampleParser::take_packed_samples() {
  PackedLengths stated = lengths_of_packed(*fields_);
  if (auto* const problem = std::get_if<LineProblem>(&stated)) return std::move(*problem);
  const std::vector<std::int64_t>& lengths = std::get<0>(stated);
  if (std::ssize(lengths) > most_samples)
    return LineProblem{"at most " + std::to_string(most_samples) + " samples in a line",
                       std::to_string(lengths.size()), "a line for each"};
  if (lengths.size() < 2) return std::nullopt;
  auto token = sample_.tokens.begin();
  auto label = sample_.labels.begin();
  for (const std::int64_t length : lengths) {
    packed_.push_back({.tokens = {token, token + length},
                       .labels = {label, label + length},
                       .weight = sample_.weight,
                       .has_ids = true});
    token += length;
    label += length;
  }
  return std::nullopt;
}

/// The instruction and, unless it is empty, the input are given, a line each; the output is
/// learned.
std::optional<LineProblem> JsonSampleParser::take_alpaca() {
  using enum LineFields::Field;
  const LineFields& line = *fields_;
  form_ = LineForm::alpaca;
  for (const LineFields::Field field : {instruction, output, input}) {
    const char* const other = line.other_type_of(field);
    if (other == nullptr || (field == input && !line.is_filled(input))) continue;
    return no_sample(LineFields::quoted(field) + " is " + other);
  }
  for (const LineFields::Field field : {system, history})
    if (line.is_filled(field))
      return LineProblem{"a tokenizer with a chat template, for " + LineFields::quoted(field),
                         "a line that is read as text",
                         "data.format = \"chat\", or leaving the key out"};
  std::string given;
  for (const LineFields::Field field : {instruction, input})
    if (line.is_filled(field)) given += line.text_of(field) + '\n';
  take_text(given, line.text_of(output));
  return std::nullopt;
}

void JsonSampleParser::take_text(std::optional<std::string_view> given, std::string_view learned) {
  sample_.tokens.clear();
  encoder_.begin(sample_.tokens);
  if (given) encoder_.add(*given, sample_.tokens);
  const std::size_t ignored = given ? sample_.tokens.size() : 0;
  encoder_.add(learned, sample_.tokens);
  encoder_.end(sample_.tokens);
  sample_.labels = sample_.tokens;
  std::fill_n(sample_.labels.begin(), ignored, ignored_target);
}

}  // namespace accrue::data
