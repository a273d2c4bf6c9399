#include "data/json/line_json.h"

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "data/json/large_integer.h"

namespace accrue::data {
namespace {

using LineValue = nlohmann::ordered_json;

/// Builds the value from the parser's events.
class LineBuilder final : public nlohmann::json_sax<LineValue> {
 public:
  /// Integers keep their digits in arrays and objects that lie within `outer` others.
  explicit LineBuilder(std::size_t outer) : outer_(outer) {}

  LineJson take() { return {std::move(root_), std::exchange(problem_, std::nullopt)}; }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string& text) override {
    const bool is_integer = text.find_first_not_of("-0123456789") == std::string::npos;
    const bool is_inside = open_.size() > outer_;
    return is_integer && is_inside ? add(large_integer(text)) : add(value);
  }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // no JSON text has any

  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return open(LineValue::object());
  }
  bool key(std::string& name) override {
    if (!keys_.back().insert(name).second)
      return refuse(
          {"an object with each key once", '"' + name + "\" twice", "leaving one of the two out"});
    key_ = std::move(name);
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return open(LineValue::array()); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    constexpr int number_overflow = 406;
    const bool is_too_large = error.id == number_overflow;
    return refuse({"a JSON object",
                   (is_too_large ? "a number that a float has no room for, at byte "
                                 : "what is no JSON at byte ") +
                       std::to_string(position),
                   "an object per line, in UTF-8"});
  }

 private:
  bool refuse(LineProblem problem) {
    root_ = nullptr;
    problem_ = std::move(problem);
    return false;
  }

  LineValue& place(LineValue value) {
    if (open_.empty()) return root_ = std::move(value);
    LineValue& around = *open_.back();
    if (around.is_array())
      return around.get_ref<LineValue::array_t&>().emplace_back(std::move(value));
    auto& members = around.get_ref<LineValue::object_t&>();
    members.emplace_back(std::move(key_), std::move(value));  // keys_ has the search
    return members.back().second;
  }

  bool add(LineValue value) {
    place(std::move(value));
    return true;
  }

  bool open(LineValue value) {
    constexpr std::size_t deepest = 256;  // a template's values are nested less deeply
    if (open_.size() == deepest)
      return refuse({"values nested at most " + std::to_string(deepest) + " deep", "deeper ones",
                     "a flatter object"});
    open_.push_back(&place(std::move(value)));
    return true;
  }

  std::size_t outer_;
  LineValue root_;
  std::vector<LineValue*> open_;                       ///< arrays and objects that have not ended
  std::vector<std::unordered_set<std::string>> keys_;  ///< of each object among them
  std::string key_;                                    ///< of the next value
  std::optional<LineProblem> problem_;
};

LineJson read_json(std::string_view text, std::size_t outer) {
  LineBuilder builder(outer);
  LineValue::sax_parse(text.data(), text.data() + text.size(), &builder);
  return builder.take();
}

}  // namespace

LineJson read_line_json(std::string_view text) { return read_json(text, 1); }

LineJson read_inner_json(std::string_view text) { return read_json(text, 0); }

}  // namespace accrue::data
