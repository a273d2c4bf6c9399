#include "data/chat/format/chat_templates.h"

#include <nlohmann/json.hpp>

#include "accrue/core/error.h"
#include "core/atomic_file.h"
#include "data/tokenizer/folder/tokenizer_files.h"
#include "data/tokenizer/folder/tokenizer_settings.h"

namespace accrue::data {
namespace {

namespace fs = std::filesystem;
using StatedTemplates = nlohmann::ordered_json;
using TemplateTexts = std::map<std::string, std::string>;

constexpr const char* kDefaultTemplate = "default";

/// The templates in the files.
TemplateTexts texts_of_files(const fs::path& folder) {
  TemplateTexts texts;
  std::error_code unreadable;
  const fs::path one = folder / kChatTemplateFile;
  if (fs::is_regular_file(one, unreadable)) texts[kDefaultTemplate] = read_file(one);
  for (const fs::directory_entry& file :
       fs::directory_iterator(folder / kChatTemplateFolder, unreadable))
    if (file.path().extension() == ".jinja" && file.is_regular_file(unreadable))
      texts[file.path().stem().string()] = read_file(file.path());
  return texts;
}

class TemplatesOfJson {
 public:
  TemplatesOfJson(const fs::path& file, const std::string& what) : file_(file), what_(what) {}

  /// A text, texts by name, or a list of names with texts; the last of a name counts.
  TemplateTexts read(const StatedTemplates& stated) const {
    TemplateTexts texts;
    if (stated.is_null()) return texts;
    if (stated.is_array()) {
      for (const StatedTemplates& one : stated)
        texts[text_in(one, "name")] = text_in(one, "template");
    } else if (stated.is_object()) {
      for (const auto& [name, text] : stated.items()) texts[name] = text_in(stated, name);
    } else {
      texts[kDefaultTemplate] = text_of(stated);
    }
    return texts;
  }

 private:
  std::string text_in(const StatedTemplates& object, const std::string& name) const {
    const auto found = object.find(name);
    if (found == object.end()) refuse("one without \"" + name + '"');
    return text_of(*found);
  }

  std::string text_of(const StatedTemplates& value) const {
    if (!value.is_string()) refuse("one of type " + std::string(value.type_name()));
    return value.get<std::string>();
  }

  [[noreturn]] void refuse(const std::string& received) const {
    throw usage_error(what_ + ": " + file_.string(),
                      "\"chat_template\" as a text, or a list of texts with names", received,
                      R"([{"name": "default", "template": "..."}], or a chat_template.jinja)");
  }

  const fs::path& file_;
  const std::string& what_;
};

/// From a chat_template.json; empty if there is no such file.
TemplateTexts texts_of_processor(const fs::path& folder, const std::string& what) {
  const fs::path file = folder / kProcessorTemplate;
  std::error_code unreadable;
  if (!fs::is_regular_file(file, unreadable)) return {};
  const StatedTemplates processor = read_settings_file(file, what);
  if (!processor.contains("chat_template"))
    throw usage_error(what + ": " + file.string(), "a JSON object with \"chat_template\"",
                      "one without it", "the template as a chat_template.jinja");
  return TemplatesOfJson(file, what).read(processor["chat_template"]);
}

}  // namespace

ChatTemplates read_chat_templates(const fs::path& tokenizer_file, const std::string& what) {
  const fs::path folder = tokenizer_file.parent_path();
  ChatTemplates templates{texts_of_files(folder)};
  if (!templates.texts.empty()) return templates;
  const StatedTemplates settings = read_tokenizer_settings(tokenizer_file, what);
  const auto stated = settings.find("chat_template");
  if (stated != settings.end())
    templates.texts = TemplatesOfJson(folder / kTokenizerSettings, what).read(*stated);
  if (templates.texts.empty()) templates.texts = texts_of_processor(folder, what);
  return templates;
}

}  // namespace accrue::data
