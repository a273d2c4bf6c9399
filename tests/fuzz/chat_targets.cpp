// Chat templates, rendered with a conversation that contains every kind of part; and lines of
// conversations, read with the files of a tokenizer.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/chat/conversation/learned_pieces.h"
#include "data/chat/lines/chat_sample.h"
#include "data/sequence_batch.h"
#include "data/text/sources/pair_sample.h"
#include "data/tokenizer/folder/tokenizer_files.h"
#include "fuzz_targets.h"
#include "scratch.h"

namespace accrue::fuzz {
namespace {

nlohmann::ordered_json messages() {
  return {{{"role", "system"}, {"content", "Be brief."}},
          {{"role", "user"}, {"content", " Héllo\n"}},
          {{"role", "assistant"},
           {"content", "<think>\nso\n</think>\n\nyes"},
           {"tool_calls",
            nlohmann::ordered_json::array(
                {{{"id", "abcdefghi"},
                  {"function", {{"name", "f"}, {"arguments", {{"x", {1, 2.5, nullptr}}}}}}}})}},
          {{"role", "tool"}, {"content", "42"}, {"tool_call_id", "abcdefghi"}},
          {{"role", "assistant"}, {"content", ""}}};
}

/// Templates that look at the first message, at tools and at the end of a conversation, and one
/// that marks the learned text.
constexpr const char* settings_of_chat = R"({"bos_token": "<s>", "eos_token": "</s>",
"chat_template": [{"name": "default", "template":
"{{ bos_token }}{% if messages[0].role != 'system' %}<system>be brief{% endif %}{% for m in messages
%}<{{ m.role }}>{{ m.content }}{% if m.tool_calls is defined %}{{ m | tojson }}{% endif %}
{% endfor %}{% if add_generation_prompt %}<assistant>{% else %}{{ eos_token }}{% endif %}"},
{"name": "tool_use", "template": "{{ tools | tojson }}{% for m in messages %}<{{ m.role }}>{%
generation %}{{ m.content }}{% endgeneration %}{% endfor %}"}]})";

/// Tokens that are bytes, and the templates above.
std::filesystem::path chat_tokenizer() {
  const std::filesystem::path folder = scratch("chat");
  std::filesystem::create_directories(folder);
  data::write_byte_tokenizer(folder, /*context=*/1024);
  std::string settings = settings_of_chat;
  std::ranges::replace(settings, '\n', ' ');
  put("chat/tokenizer_config.json", bytes_of(settings));
  return folder / data::kTokenizerFile;
}

struct ChatFiles {
  std::shared_ptr<const data::Tokenizer> tokenizer;
  std::shared_ptr<const data::ChatFormat> format;
};

const ChatFiles& chat_files() {
  static const ChatFiles files = [] {
    auto tokenizer = data::Tokenizer::open(chat_tokenizer(), "data.tokenizer");
    auto format = data::read_chat_format(*tokenizer, "data.tokenizer");
    return ChatFiles{.tokenizer = std::move(tokenizer), .format = std::move(format)};
  }();
  return files;
}

void read_line(data::SampleParser& parser, const std::string& line) {
  if (parser.parse(line)) return;  // it was refused with a message
  for (const data::JsonSample& sample : parser.samples()) {
    expect(sample.labels.size() == sample.tokens.size(), "each token has a label");
    for (std::size_t i = 0; i < sample.labels.size(); ++i)
      expect(sample.labels[i] == data::ignored_target || sample.labels[i] == sample.tokens[i],
             "a token is learned as it is, or not at all");
  }
}

}  // namespace

void fuzz_chat_template(Input input) {
  const std::string source(input.begin(), input.end());
  const auto chat = data::ChatTemplate::parse(source, "chat template");
  data::ChatSetting setting;
  setting.variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  setting.tools = nlohmann::ordered_json::array(
      {{{"type", "function"},
        {"function", {{"name", "f"}, {"parameters", {{"type", "object"}}}}}}});
  setting.now.tm_mday = 1;
  for (const data::ChatSequence& sequence : data::learned_sequences(chat, messages(), setting)) {
    bool is_learned = false;
    for (const data::ChatTemplate::Piece& piece : sequence) {
      expect(!piece.text.empty(), "pieces have text");
      is_learned = is_learned || piece.is_learned;
    }
    expect(is_learned, "something of a sequence is learned");
  }
}

/// The first two bits select the kind of input: a line of a conversation, a pair of them, or the
/// settings or the processor's file, which contain templates. Turns are rendered one after the
/// other, so long conversations only take longer.
void fuzz_chat_lines(Input input) {
  constexpr std::size_t longest = 4096;
  if (input.empty() || input.size() > longest) return;
  const int kind = input[0] & 3;
  const Input rest = input.subspan(1);
  const ChatFiles& files = chat_files();
  if (kind == 0) {
    data::ChatSampleParser parser(/*vocab_bound=*/0, *files.tokenizer, files.format);
    read_line(parser, std::string(text_of(rest)));
  } else if (kind == 1) {
    data::PairSampleParser parser(/*vocab_bound=*/0, files.tokenizer.get(), files.format);
    read_line(parser, std::string(text_of(rest)));
  } else {
    const bool is_processor = kind == 3;
    put("templates/chat_template.json",
        is_processor ? rest : bytes_of("{\"chat_template\": null}"));
    put("templates/tokenizer_config.json", is_processor ? bytes_of("{}") : rest);
    const auto templates =
        data::read_chat_templates(scratch("templates") / data::kTokenizerFile, "data.tokenizer");
    if (!templates.texts.empty()) data::TemplateChoice(templates, "data.tokenizer");
  }
}

}  // namespace accrue::fuzz
