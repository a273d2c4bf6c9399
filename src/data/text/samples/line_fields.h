#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/json/line_problem.h"
#include "data/json/open_keys.h"

namespace accrue::data {

/// The fields of a line from which a sample is made, extracted from a parser's events. Values of
/// other keys are skipped, however deep.
class LineFields final : public nlohmann::json_sax<nlohmann::json> {
 public:
  enum Field : std::size_t {
    text,
    prompt,
    completion,
    input_ids,
    labels,
    weight,
    attention_mask,
    completion_mask,
    assistant_masks,
    loss_mask,
    position_ids,
    seq_lengths,
    // Of Alpaca, whose names other lines use for something else: any value is accepted.
    instruction,
    input,
    output,
    system,
    history,
    unknown
  };
  /// Masks whose 0 marks a token that is not learned.
  static constexpr std::array masks_of_loss{completion_mask, assistant_masks, loss_mask};
  static constexpr std::array fields_of_alpaca{instruction, input, output, system, history};

  static std::string_view name_of(Field field);
  static std::string quoted(Field field);

  /// Returns the problem if the line has no valid fields.
  std::optional<LineProblem> read(std::string_view line);

  bool has(Field field) const { return seen_[field]; }
  /// The field's text; empty if it is missing or not a text.
  const std::string& text_of(Field field) const { return texts_[field]; }
  const std::vector<std::int64_t>& list_of(Field field) const { return lists_[field]; }
  double weight_value() const { return weight_; }
  /// The type of a field of Alpaca that is not a text: "null", "a number"; null if it is one.
  const char* other_type_of(Field field) const { return other_types_[field]; }
  /// Whether a field of Alpaca exists and is neither null nor an empty text, list or object.
  bool is_filled(Field field) const;
  /// The keys that are not fields, in their order.
  const std::vector<std::string>& unknown_keys() const { return unknown_keys_; }

  bool null() override { return other_value("null"); }
  bool boolean(bool value) override;
  bool number_integer(std::int64_t value) override { return number(value); }
  bool number_unsigned(std::uint64_t value) override;
  bool number_float(double value, const std::string& written) override;
  bool string(std::string& value) override;
  bool binary(binary_t&) override { return other_value("binary data"); }
  bool start_object(std::size_t) override;
  bool key(std::string& name) override;
  bool end_object() override;
  bool start_array(std::size_t) override;
  bool end_array() override;
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override;

 private:
  void reset(std::string_view line);
  LinePlace place() const;
  bool refuse(LineProblem problem);
  bool refuse_value(const std::string& received);
  /// Takes a value that only Alpaca's fields may have, or refuses it.
  bool other_value(const char* type);
  /// Whether the value is skipped; records the types of Alpaca's fields.
  bool pass_over(const char* type);
  bool number(std::int64_t value);
  bool take_weight(double value);
  bool add(std::int64_t value);

  std::string_view line_;
  std::array<bool, unknown + 1> seen_{};
  std::array<std::string, unknown + 1> texts_;
  std::array<std::vector<std::int64_t>, unknown + 1> lists_;
  std::array<const char*, unknown + 1> other_types_{};
  std::array<bool, unknown + 1> has_elements_{};
  std::vector<std::string> unknown_keys_;
  OpenKeys open_keys_;
  double weight_ = 1;
  Field field_ = unknown;
  int depth_ = 0;
  std::optional<LineProblem> problem_;
};

/// The problem of a line that is not a sample in any form.
LineProblem no_sample(std::string received);

}  // namespace accrue::data
