#include "data/chat/template/chat_template.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "accrue/core/error.h"
#include "data/chat/template/syntax/template_parser.h"
#include "data/chat/template/template_renderer.h"

namespace accrue::data {

struct ChatTemplate::Parsed {
  std::string what;
  jinja::ParsedTemplate content;
};

namespace {

std::vector<std::pair<std::string, jinja::Value>> values_of(
    const nlohmann::ordered_json& variables) {
  if (!variables.is_object()) throw jinja::Failure("an object of variables", variables.type_name());
  std::vector<std::pair<std::string, jinja::Value>> values;
  for (const auto& [name, value] : variables.items())
    values.emplace_back(name, jinja::value_of(value));
  return values;
}

jinja::Renderer::Rendered rendered(const jinja::ParsedTemplate& content, const std::string& what,
                                   const nlohmann::ordered_json& variables, const std::tm& now) {
  jinja::Renderer renderer(now);
  try {
    return renderer.run(content, values_of(variables));
  } catch (const jinja::Failure& failure) {
    throw usage_error(
        what, failure.expected,
        failure.received + " in line " + std::to_string(renderer.line()) + " of the chat template",
        "messages of the roles and parts that this template knows");
  }
}

}  // namespace

ChatTemplate::ChatTemplate(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}

ChatTemplate ChatTemplate::parse(const std::string& source, const std::string& what) {
  return ChatTemplate(
      std::make_shared<const Parsed>(Parsed{what, jinja::parse_template(source, what)}));
}

std::string ChatTemplate::render(const nlohmann::ordered_json& variables,
                                 const std::tm& now) const {
  return rendered(parsed_->content, parsed_->what, variables, now).text;
}

bool ChatTemplate::has_generation() const { return parsed_->content.has_generation; }

const std::string& ChatTemplate::what() const { return parsed_->what; }

std::vector<ChatTemplate::Piece> ChatTemplate::render_pieces(
    const nlohmann::ordered_json& variables, const std::tm& now) const {
  const auto whole = rendered(parsed_->content, parsed_->what, variables, now);
  if (whole.has_lost_generation)
    throw usage_error(parsed_->what, "{% generation %} outside of macros, set and filter blocks",
                      "one inside, so that its place in the text is unknown",
                      "a template that has these blocks where it writes messages");
  std::vector<Piece> pieces;
  std::size_t at = 0;
  const auto add = [&](std::size_t end, bool is_learned) {
    if (end > at) pieces.push_back({whole.text.substr(at, end - at), is_learned});
    at = std::max(at, end);
  };
  for (const auto& span : whole.generated) {
    add(span.begin, false);
    add(span.end, true);
  }
  add(whole.text.size(), false);
  return pieces;
}

}  // namespace accrue::data
