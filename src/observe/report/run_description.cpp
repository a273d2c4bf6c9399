#include "observe/report/run_description.h"

#include <nlohmann/json.hpp>

#include "accrue/core/units.h"
#include "core/words.h"
#include "observe/history/run_facts.h"
#include "observe/report/json_fields.h"
#include "observe/report/plan_description.h"

namespace accrue::observe {
namespace {

using nlohmann::json;
using Config = std::map<std::string, std::string>;

std::string value_of(const Config& config, const std::string& key) {
  const auto entry = config.find(key);
  return entry == config.end() ? "" : entry->second;
}

std::string model_name(const std::string& kind) {
  static const std::map<std::string, std::string> names{{"gpt2", "GPT-2"},
                                                        {"llama", "Llama"},
                                                        {"vit", "ViT"},
                                                        {"resnet", "ResNet"},
                                                        {"torchscript", "TorchScript"}};
  const auto name = names.find(kind);
  return name == names.end() ? kind : name->second;
}

void append(std::string& text, const std::string& part) {
  if (part.empty()) return;
  if (!text.empty()) text += ", ";
  text += part;
}

std::string model_in_words(const json& info, const Config& config) {
  std::string words = model_name(value_of(config, "model.kind"));
  if (const auto parameters = number_at(info, "/parameters"))
    append(words, format_count(*parameters) + " parameters");
  if (const std::string layers = value_of(config, "model.layers"); !layers.empty())
    append(words, layers + (layers == "1" ? " layer" : " layers"));
  for (const char* key : {"width", "context"})
    if (const std::string value = value_of(config, std::string("model.") + key); !value.empty())
      append(words, std::string(key) + " " + value);
  return words;
}

std::string text_of_command(const json& info) {
  const auto command = info.find("command");
  if (command == info.end() || !command->is_array()) return "";
  std::string text;
  for (const json& word : *command)
    if (word.is_string()) text += (text.empty() ? "" : " ") + word.get<std::string>();
  return text;
}

/// "3 files, 12 MiB: a.txt, b.txt and 1 more".
std::string text_of_files(const json& info, const char* pointer) {
  constexpr std::size_t most_named = 3;
  const json* files = array_at(info, pointer);
  if (files == nullptr || files->empty()) return "";
  std::int64_t bytes = 0;
  std::vector<std::string> names;
  for (const json& file : *files) {
    bytes += integer_at(file, "/bytes").value_or(0);
    names.push_back(text_at(file, "/path"));
  }
  return counted(static_cast<std::int64_t>(files->size()), "file") + ", " + format_bytes(bytes) +
         ": " + first_few(std::move(names), most_named);
}

std::string text_of_resumptions(const json& info) {
  const json* resumed = array_at(info, "/resumed");
  if (resumed == nullptr || resumed->empty()) return "";
  std::string text;
  for (const json& one : *resumed)
    append(text, "at step " + text_at(one, "/step") + " (" + text_at(one, "/time") + ")");
  return text;
}

std::string text_of_end(const json& info) {
  const std::string time = text_at(info, "/ended/time"), step = text_at(info, "/ended/step");
  return step.empty() ? time : time + ", at step " + step;
}

std::vector<NamedText> environment_of(const json& info) {
  std::vector<NamedText> rows;
  const auto add = [&](const char* name, std::string text) {
    if (!text.empty()) rows.emplace_back(name, std::move(text));
  };
  add("Command", text_of_command(info));
  add("Working directory", text_at(info, "/working_directory"));
  add("Commit", text_at(info, "/commit"));
  add("Started", text_at(info, "/started"));
  add("Resumed", text_of_resumptions(info));
  add("Ended", text_of_end(info));
  add("Seed", text_at(info, "/seed"));
  add("Training data", text_of_files(info, "/data/train"));
  add("Validation data", text_of_files(info, "/data/val"));
  add("Host", text_at(info, "/machine/host"));
  add("Processor", text_at(info, "/machine/processor"));
  add("Instruction set", text_at(info, "/machine/isa"));
  add("Threads", text_at(info, "/machine/threads"));
  add("accrue", text_at(info, "/versions/accrue"));
  add("libtorch", text_at(info, "/versions/libtorch"));
  add("Matrix products", text_at(info, "/versions/gemm"));
  return rows;
}

}  // namespace

RunDescription description_of(const RunHistory& run) {
  const json info = parse_run_json(run.run_json);
  const Config config = flat_config(run);
  return {.model = model_in_words(info, config),
          .batch = batch_in_words(info),
          .unit = text_at(info, "/unit"),
          .plan = read_plan(info),
          .environment = environment_of(info)};
}

}  // namespace accrue::observe
