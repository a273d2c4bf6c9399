#include "data/json/line_syntax.h"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace accrue::data {
namespace {

using SyntaxJson = nlohmann::json;

/// Follows the parser to the point where it stops.
class SyntaxFollower final : public nlohmann::json_sax<SyntaxJson> {
 public:
  explicit SyntaxFollower(std::string_view line) : line_(line) {}

  std::optional<LineProblem> take_problem() { return std::exchange(problem_, std::nullopt); }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(std::int64_t) override { return value(); }
  bool number_unsigned(std::uint64_t) override { return value(); }
  bool number_float(double, const std::string&) override { return value(); }
  bool string(std::string&) override { return value(); }
  bool binary(binary_t&) override { return value(); }
  bool start_object(std::size_t) override {
    ++depth_;
    return true;
  }
  bool key(std::string& name) override {
    if (depth_ == 1) place_ = LinePlace{.key = name};
    if (depth_ == 2 && place_) place_->element.reset();
    return true;
  }
  bool end_object() override { return end(); }
  bool start_array(std::size_t) override {
    if (++depth_ == 2 && place_) place_->element = 0;
    return true;
  }
  bool end_array() override { return end(); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    if (place_) place_->is_within = depth_ > 1;
    problem_ = not_json(line_, position, error.what(), place_);
    return false;
  }

 private:
  bool value() {
    if (depth_ == 2 && place_ && place_->element) ++*place_->element;
    return true;
  }

  bool end() {
    --depth_;
    if (depth_ == 0) place_.reset();
    if (depth_ == 1 && place_) place_->element.reset();
    return value();
  }

  std::string_view line_;
  std::optional<LinePlace> place_;  ///< of the next value; none outside of an object
  std::size_t depth_ = 0;
  std::optional<LineProblem> problem_;
};

}  // namespace

std::optional<LineProblem> syntax_problem(std::string_view line) {
  SyntaxFollower follower(line);
  SyntaxJson::sax_parse(line.data(), line.data() + line.size(), &follower);
  return follower.take_problem();
}

LineProblem problem_in_words(LineProblem problem, std::string_view line) {
  return syntax_problem(line).value_or(std::move(problem));
}

}  // namespace accrue::data
