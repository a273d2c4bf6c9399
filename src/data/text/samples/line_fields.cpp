#include "data/text/samples/line_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "data/json/line_syntax.h"
#include "data/sequence_batch.h"

namespace accrue::data {
namespace {

using FieldsJson = nlohmann::json;

/// The kinds of values of a field.
enum class FieldKind { text, ids, weight, ones, mask, counts, any };

struct FieldTraits {
  std::string_view name;
  FieldKind kind;
};

/// In the order of LineFields::Field.
constexpr std::array<FieldTraits, LineFields::unknown + 1> field_traits{{
    {"text", FieldKind::text},
    {"prompt", FieldKind::text},
    {"completion", FieldKind::text},
    {"input_ids", FieldKind::ids},
    {"labels", FieldKind::ids},
    {"weight", FieldKind::weight},
    {"attention_mask", FieldKind::ones},
    {"completion_mask", FieldKind::mask},
    {"assistant_masks", FieldKind::mask},
    {"loss_mask", FieldKind::mask},
    {"position_ids", FieldKind::counts},
    {"seq_lengths", FieldKind::counts},
    {"instruction", FieldKind::any},
    {"input", FieldKind::any},
    {"output", FieldKind::any},
    {"system", FieldKind::any},
    {"history", FieldKind::any},
    {"", FieldKind::any},
}};

constexpr FieldKind kind_of(LineFields::Field field) { return field_traits[field].kind; }

constexpr bool is_list(FieldKind kind) {
  return kind == FieldKind::ids || kind == FieldKind::ones || kind == FieldKind::mask ||
         kind == FieldKind::counts;
}

LineFields::Field field_of(std::string_view name) {
  const auto end = field_traits.end() - 1;
  const auto known = std::find_if(field_traits.begin(), end,
                                  [name](const FieldTraits& field) { return field.name == name; });
  return static_cast<LineFields::Field>(known - field_traits.begin());
}

LineProblem problem_of(LineFields::Field field, std::string received) {
  const std::string name = LineFields::quoted(field);
  switch (kind_of(field)) {
    case FieldKind::weight:
      return {"a finite " + name + " of 0 or more", std::move(received), "1, or no weight"};
    case FieldKind::ones:
      return {"samples without padding", std::move(received),
              "the sample's own tokens only: padding is added here"};
    case FieldKind::mask:
      return {name + " as a list of 0 (not learned) and 1 (learned), one for each of the input_ids",
              std::move(received),
              R"(lines like {"input_ids": [5, 6], ")" + std::string(LineFields::name_of(field)) +
                  R"(": [0, 1]})"};
    case FieldKind::counts:
      return {name + (field == LineFields::position_ids
                          ? " that count from 0, and from 0 again where another sample begins"
                          : " of 1 or more, which sum up to the number of input_ids"),
              std::move(received), "the line's own, or leaving the key out"};
    default:
      return no_sample(std::move(received));
  }
}

}  // namespace

LineProblem no_sample(std::string received) {
  return {R"(an object with "text", or "prompt" and "completion", or "input_ids" and "labels", )"
          R"(or "instruction" and "output")",
          std::move(received), R"(lines like {"text": "..."})"};
}

std::string_view LineFields::name_of(Field field) { return field_traits[field].name; }

std::string LineFields::quoted(Field field) { return '"' + std::string(name_of(field)) + '"'; }

std::optional<LineProblem> LineFields::read(std::string_view line) {
  reset(line);
  FieldsJson::sax_parse(line.data(), line.data() + line.size(), this);
  return std::exchange(problem_, std::nullopt);
}

void LineFields::reset(std::string_view line) {
  line_ = line;
  seen_.fill(false);
  for (std::string& one : texts_) one.clear();
  for (std::vector<std::int64_t>& list : lists_) list.clear();
  other_types_.fill(nullptr);
  has_elements_.fill(false);
  unknown_keys_.clear();
  open_keys_.clear();
  weight_ = 1;
  field_ = unknown;
  depth_ = 0;
  problem_.reset();
}

bool LineFields::is_filled(Field field) const {
  if (!has(field)) return false;
  const char* const type = other_types_[field];
  if (type == nullptr) return !texts_[field].empty();
  const std::string_view other = type;
  if (other == "null") return false;
  return has_elements_[field] || (other != "an array" && other != "an object");
}

bool LineFields::boolean(bool value) {
  if (depth_ == 2 && kind_of(field_) == FieldKind::mask) return add(value ? 1 : 0);
  return other_value("a boolean");
}

bool LineFields::number_unsigned(std::uint64_t value) {
  constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();
  if (value <= largest) return number(static_cast<std::int64_t>(value));
  if (pass_over("a number")) return true;
  const FieldKind kind = kind_of(field_);
  if (depth_ == 1 && kind == FieldKind::weight) return take_weight(static_cast<double>(value));
  return refuse_value(std::to_string(value) +
                      (kind == FieldKind::ids ? ", which is no token id" : ""));
}

bool LineFields::number_float(double value, const std::string& written) {
  if (pass_over("a number")) return true;
  const FieldKind kind = kind_of(field_);
  if (is_long_integer(written))
    return refuse_value(kind == FieldKind::ids
                            ? "an integer of more than 64 bits, which is no token id"
                            : "an integer of more than 64 bits");
  if (depth_ == 1 && kind == FieldKind::weight) return take_weight(value);
  if (depth_ == 2 && kind == FieldKind::mask && (value == 0 || value == 1))
    return add(static_cast<std::int64_t>(value));
  if (kind == FieldKind::ids) return refuse_value("a number that is no token id");
  return refuse_value(kind == FieldKind::text ? "a number" : shortened(written));
}

bool LineFields::string(std::string& value) {
  if (depth_ == 1 && (kind_of(field_) == FieldKind::text || field_ >= instruction)) {
    if (field_ != unknown) texts_[field_] = value;
    return true;
  }
  return other_value("a string");
}

bool LineFields::start_object(std::size_t) {
  if (depth_ > 0 && !other_value("an object")) return false;
  ++depth_;
  open_keys_.open_object();
  return true;
}

bool LineFields::key(std::string& name) {
  if (!open_keys_.add(name)) return refuse(no_sample('"' + shortened(name) + "\" twice"));
  if (depth_ != 1) return true;
  field_ = field_of(name);
  seen_[field_] = true;
  if (field_ == unknown) unknown_keys_.push_back(name);
  return true;
}

bool LineFields::end_object() {
  --depth_;
  open_keys_.close_object();
  return true;
}

bool LineFields::start_array(std::size_t) {
  const bool is_expected = depth_ == 1 && is_list(kind_of(field_));
  if (!is_expected && !other_value("an array")) return false;
  ++depth_;
  return true;
}

bool LineFields::end_array() {
  --depth_;
  return true;
}

bool LineFields::parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) {
  problem_ = syntax_problem(line_);
  return false;
}

LinePlace LineFields::place() const {
  LinePlace place{.key = field_ == unknown ? unknown_keys_.back() : std::string(name_of(field_)),
                  .is_within = depth_ > 1};
  if (depth_ == 2 && is_list(kind_of(field_))) place.element = lists_[field_].size();
  return place;
}

bool LineFields::refuse(LineProblem problem) {
  problem_ = std::move(problem);
  return false;
}

bool LineFields::refuse_value(const std::string& received) {
  if (depth_ == 0) return refuse(no_sample(received));
  return refuse(at_place(problem_of(field_, subject_of(place()) + received), line_, place()));
}

bool LineFields::other_value(const char* type) { return pass_over(type) || refuse_value(type); }

bool LineFields::pass_over(const char* type) {
  if (depth_ == 0 || kind_of(field_) != FieldKind::any) return false;
  if (depth_ == 1)
    other_types_[field_] = type;
  else
    has_elements_[field_] = true;
  return true;
}

bool LineFields::number(std::int64_t value) {
  if (pass_over("a number")) return true;
  const FieldKind kind = kind_of(field_);
  if (depth_ == 1 && kind == FieldKind::weight) return take_weight(static_cast<double>(value));
  if (depth_ != 2 || !is_list(kind)) return refuse_value("a number");
  const bool is_known_value = kind == FieldKind::ones   ? value == 1
                              : kind == FieldKind::mask ? value == 0 || value == 1
                                                        : value >= 0;
  if (is_known_value || (field_ == labels && value == ignored_target)) return add(value);
  return refuse_value(std::to_string(value));
}

bool LineFields::take_weight(double value) {
  if (value < 0 || !std::isfinite(static_cast<float>(value)))
    return refuse_value(FieldsJson(value).dump());
  weight_ = value;
  return true;
}

bool LineFields::add(std::int64_t value) {
  lists_[field_].push_back(value);
  return true;
}

}  // namespace accrue::data
