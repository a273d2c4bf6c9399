#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace accrue::data {

/// The chat templates of a tokenizer.
struct ChatTemplates {
  std::map<std::string, std::string>
      texts;  ///< by name ("default", "tool_use"); empty when there is none
};

/// The chat templates with a tokenizer.json, as transformers takes them: chat_template.jinja (the
/// one named "default") and additional_chat_templates/NAME.jinja, or, when there are none of these
/// files, "chat_template" of tokenizer_config.json: a text, or several by name. A
/// chat_template.json, which older processors have, counts when nothing else has a template.
/// Throws a usage Error, its operation beginning with `what`, for templates that are stated in
/// another form.
ChatTemplates read_chat_templates(const std::filesystem::path& tokenizer_file,
                                  const std::string& what);

}  // namespace accrue::data
