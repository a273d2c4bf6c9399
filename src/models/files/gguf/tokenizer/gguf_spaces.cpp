#include "models/files/gguf/tokenizer/gguf_spaces.h"

#include <algorithm>

#include "data/json/line_problem.h"
#include "data/tokenizer/pipeline/part_forms.h"
#include "models/files/gguf/tokenizer/json_members.h"

namespace accrue::models {
namespace {

using nlohmann::json;

/// The text that a step searches for: a pattern of a single space or mark means itself.
std::string sought_by(const json& step) {
  const json& pattern = member(step, "pattern");
  const std::string text = text_in(pattern, "String");
  return text.empty() ? text_in(pattern, "Regex") : text;
}

/// "always", "first" or "never", also for files from before 2024.
std::string scheme_of(const json& metaspace) {
  const std::string scheme = text_in(metaspace, "prepend_scheme");
  if (!scheme.empty()) return scheme;
  return flag_in(metaspace, "add_prefix_space", true) ? "always" : "never";
}

class SpacesOfParts {
 public:
  explicit SpacesOfParts(const std::vector<std::string_view>& tokens) : tokens_(tokens) {}

  GgufSpaces read(const json& normalizer, const json& pre_tokenizer) {
    for (const json& step : steps_within(normalizer, "normalizers"))
      if (!take_normalizer(step)) return refused("normalizer", step);
    found_.normalizer_shows = shows_;
    found_.normalizer_prepends = found_.prepends;
    for (const json& step : steps_within(pre_tokenizer, "pretokenizers"))
      if (!take_pre_tokenizer(step)) return refused("pre_tokenizer", step);
    if (!shows_) found_.obstacle = "spaces that stay as they are";
    return found_;
  }

 private:
  GgufSpaces refused(std::string_view name, const json& step) {
    if (found_.obstacle.empty()) found_.obstacle = quoted_part(name, step);
    return found_;
  }

  bool take_normalizer(const json& step) {
    const std::string type = text_in(step, "type");
    if (type == "Replace" && sought_by(step) == " " &&
        text_in(step, "content") == data::kMarkedSpace) {
      shows_ = true;
      return true;
    }
    const std::string prefix = text_in(step, "prepend");
    if (type != "Prepend" || found_.prepends ||
        (prefix != data::kMarkedSpace && (prefix != " " || shows_)))
      return false;
    found_.prepends = true;
    return true;
  }

  bool take_pre_tokenizer(const json& step) {
    const std::string type = text_in(step, "type");
    if (type == "Metaspace") return take_metaspace(step);
    if (type != "Split" || flag_in(step, "invert", false)) return false;
    const std::string sought = sought_by(step);
    if (sought == " ") return shows_;  // there is none left
    return sought == data::kMarkedSpace && text_in(step, "behavior") == "MergedWithNext" &&
           take_words(step);
  }

  /// It puts a space before a text that begins without one; llama.cpp puts one before each.
  bool take_metaspace(const json& step) {
    if (text_in(step, "replacement") != data::kMarkedSpace) return false;
    shows_ = true;
    if (const std::string scheme = scheme_of(step); scheme != "never" && !found_.prepends) {
      if (scheme != "always" && scheme != "first") return false;
      found_.prepends = true;
      found_.other_texts = scheme == "always"
                               ? "a text that begins with a space"
                               : "a text that begins with a space or follows a special token";
      found_.other_texts += " gets one more";
    }
    return !flag_in(step, "split", true) || take_words(step);
  }

  /// Words that begin with a mark: cutting has no effect if no token extends into another word.
  bool take_words(const json& step) {
    const auto reaches = [](std::string_view token) {
      return token.find(data::kMarkedSpace, 1) != token.npos;
    };
    const auto found = std::find_if(tokens_.begin(), tokens_.end(), reaches);
    if (found == tokens_.end()) return true;
    found_.obstacle = quoted_part("pre_tokenizer", step) + ", which cuts within the token \"" +
                      std::string(*found) + '"';
    return false;
  }

  const std::vector<std::string_view>& tokens_;
  bool shows_ = false;  ///< marks spaces
  GgufSpaces found_;
};

void append_steps_within(const json& part, const char* of_sequence, std::vector<json>& steps) {
  if (text_in(part, "type") != "Sequence" || !part.contains(of_sequence)) {
    steps.push_back(part);
    return;
  }
  for (const json& step : part[of_sequence]) append_steps_within(step, of_sequence, steps);
}

}  // namespace

GgufSpaces spaces_of(const json& normalizer, const json& pre_tokenizer,
                     const std::vector<std::string_view>& tokens) {
  return SpacesOfParts(tokens).read(normalizer, pre_tokenizer);
}

std::vector<json> steps_within(const json& part, const char* of_sequence) {
  std::vector<json> steps;
  if (!part.is_null()) append_steps_within(part, of_sequence, steps);
  return steps;
}

std::string quoted_part(std::string_view name, const json& part) {
  constexpr std::size_t longest = 120;
  const std::string stated =
      part.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace);
  return "the " + std::string(name) + ' ' + data::shortened(stated, longest);
}

}  // namespace accrue::models
