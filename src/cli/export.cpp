#include <iostream>
#include <memory>
#include <optional>

#include "accrue/core/error.h"
#include "accrue/models/adapter_io.h"
#include "accrue/models/bert_io.h"
#include "accrue/models/gpt2_io.h"
#include "accrue/models/llama_io.h"
#include "accrue/train/run_directory.h"
#include "cli/carried_files.h"
#include "cli/commands.h"
#include "cli/gguf_export.h"
#include "cli/model_card.h"
#include "cli/trained_text.h"
#include "cli/trusted_module.h"
#include "core/atomic_file.h"
#include "core/printable.h"
#include "data/text/tokenizer_files.h"
#include "models/files/vision_io.h"
#include "train/workload/model_factory.h"

namespace accrue::cli {
namespace {

namespace fs = std::filesystem;

struct ExportArguments {
  std::string run;
  std::string out;
  std::optional<std::int64_t> checkpoint;
  std::string format = "hf";
  std::optional<std::string> dtype;
  bool adapter = false;
  bool nearest_tokenizer = false;
  bool trust_module = false;
};

/// Refuses a folder that holds files, among which somebody would have to pick out the model's.
/// Saving guards against files that come to be meanwhile.
void check_nothing_is_there(const fs::path& folder) {
  const auto refuse = [&](const std::string& name) {
    throw usage_error("export to " + folder.string(), "a new or empty folder", "one with a " + name,
                      "another --out");
  };
  std::error_code unreadable;
  for (const char* name :
       {"README.md", "adapter_config.json", "tokenizer.json", "tokenizer_config.json"})
    if (fs::exists(fs::symlink_status(folder / name, unreadable))) refuse(name);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, unreadable))
    refuse(entry.path().filename().string());
}

models::ImageTask image_task(const train::ModelConfig& model) {
  models::ImageTask task;
  if (model.image.size() != task.image.size()) return task;
  std::copy(model.image.begin(), model.image.end(), task.image.begin());
  for (std::int64_t i = 0; i < model.vocab.value_or(0); ++i)
    task.classes.push_back(train::class_name(model, i));
  return task;
}

void copy_tokenizer(const fs::path& tokenizer, const fs::path& out) {
  for (const data::TokenizerPart& part : data::files_of_tokenizer(tokenizer))
    write_file_atomically(out / part.name, read_file(part.file));
}

/// Saves the model and returns its card.
std::string save_language_model(const fs::path& out, const train::TrainedModel& trained,
                                const models::LanguageModel& model) {
  const bool byte_tokens = trained_on_bytes(trained);
  if (const auto* gpt2 = dynamic_cast<const models::Gpt2*>(&model))
    models::save_gpt2_folder(out, *gpt2);
  if (const auto* llama = dynamic_cast<const models::Llama*>(&model))
    models::save_llama_folder(out, *llama);
  if (byte_tokens) data::write_byte_tokenizer(out, model.context());
  if (!trained.tokenizer.empty()) copy_tokenizer(trained.tokenizer, out);
  if (!trained.config.model.from.empty())
    carry_files(trained.config.model.from, out, /*with_tokenizer=*/!byte_tokens);
  return language_model_card(trained, byte_tokens);
}

/// Saves the model and returns its card.
std::string save_masked_model(const fs::path& out, const train::TrainedModel& trained,
                              const models::Bert& model) {
  const bool byte_tokens = trained_on_bytes(trained);
  models::save_bert_folder(out, model);
  if (byte_tokens)
    data::write_byte_tokenizer(out, model.options().context,
                               trained.config.loss.mask_token.value_or(train::byte_vocabulary));
  if (!trained.tokenizer.empty()) copy_tokenizer(trained.tokenizer, out);
  if (!trained.config.model.from.empty())
    carry_files(trained.config.model.from, out, /*with_tokenizer=*/!byte_tokens);
  return masked_model_card(trained, byte_tokens);
}

/// Saves the adapters and returns their card.
std::string save_adapters(const fs::path& out, const train::TrainedModel& trained) {
  const auto* model = dynamic_cast<const models::LanguageModel*>(trained.model.get());
  if (model == nullptr)
    throw usage_error("export --format adapter", "a gpt2 or llama with adapters",
                      std::string(to_string(trained.config.model.kind)), "--format hf");
  models::save_adapter_folder(out, *model, trained.config.model.from);
  return adapter_card(trained);
}

/// Saves the model and returns its card.
std::string save_model(const fs::path& out, const train::TrainedModel& trained) {
  const models::Model& model = *trained.model;
  const models::ImageTask task = image_task(trained.config.model);
  if (const auto* language_model = dynamic_cast<const models::LanguageModel*>(&model))
    return save_language_model(out, trained, *language_model);
  if (const auto* bert = dynamic_cast<const models::Bert*>(&model))
    return save_masked_model(out, trained, *bert);
  if (const auto* vit = dynamic_cast<const models::Vit*>(&model))
    models::save_vit_folder(out, *vit, task);
  if (const auto* resnet = dynamic_cast<const models::ResNet*>(&model))
    models::save_resnet_folder(out, *resnet, task);
  if (const auto* module = dynamic_cast<const models::TorchScriptModel*>(&model))
    models::save_torchscript_folder(out, *module, task);
  return trained.config.model.image.empty() ? module_card(trained) : image_model_card(trained);
}

void check_options(const ExportArguments& arguments) {
  const bool is_gguf = arguments.format == "gguf";
  if (arguments.dtype && (!is_gguf || arguments.adapter))
    throw usage_error("accrue export", "--dtype with --format gguf and a whole model",
                      is_gguf ? "--adapter" : "--format " + arguments.format,
                      "leaving --dtype out");
  if (arguments.adapter && !is_gguf)
    throw usage_error("accrue export", "--adapter with --format gguf",
                      "--format " + arguments.format, "--format adapter, as PEFT has adapters");
  if (arguments.nearest_tokenizer && (!is_gguf || arguments.adapter))
    throw usage_error("accrue export", "--nearest-tokenizer with --format gguf and a whole model",
                      is_gguf ? "--adapter" : "--format " + arguments.format,
                      "leaving --nearest-tokenizer out");
}

/// Saves what is asked for and returns its card.
std::string save(const fs::path& out, const train::TrainedModel& trained,
                 const ExportArguments& arguments) {
  if (arguments.format == "adapter") return save_adapters(out, trained);
  if (arguments.format != "gguf") return save_model(out, trained);
  if (arguments.adapter) return save_gguf_adapter(out, trained);
  return save_gguf(out, trained,
                   {.dtype = models::gguf_dtype_words.find(arguments.dtype.value_or("f16")).value(),
                    .nearest_tokenizer = arguments.nearest_tokenizer});
}

int run_export(const ExportArguments& arguments) {
  const fs::path out(arguments.out);
  if (out.empty())
    throw usage_error("accrue export", "a new or empty folder", "--out \"\"", "a name for it");
  check_options(arguments);
  check_nothing_is_there(out);
  const train::TrainedModel trained =
      train::load_trained_model(train::RunDirectory(arguments.run), arguments.checkpoint, {},
                                module_trust(arguments.trust_module));
  const std::string card = save(out, trained, arguments);
  write_file_atomically(out / "README.md", card);
  std::cout << printable_line(out.string()) << std::endl;
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("export", "Write a run's model as a folder that other libraries load");
  verb->footer(
      "A gpt2, llama, bert or vit becomes a folder that transformers loads, a resnet one with "
      "torchvision's "
      "names, a TorchScript module a model.pt; each with config.json and a model card. Adapters "
      "are "
      "merged into their base, or written apart as PEFT loads them (--format adapter). A gpt2 or "
      "llama also becomes a file that llama.cpp loads (--format gguf).\n\n"
      "Example:\n"
      "  accrue export runs/first --out models/first\n"
      "  python -c 'from transformers import GPT2LMHeadModel as M; "
      "M.from_pretrained(\"models/first\")'");
  auto arguments = std::make_shared<ExportArguments>();
  verb->add_option("RUN_DIR", arguments->run, "Folder of a run")->required();
  verb->add_option("--out", arguments->out, "Folder to write")->required()->type_name("DIR");
  verb->add_option("--checkpoint", arguments->checkpoint, "Step (default: the newest checkpoint)")
      ->type_name("STEP");
  verb->add_option("--format", arguments->format,
                   "hf; gguf: a file for llama.cpp; adapter: what lora trained alone")
      ->check(CLI::IsMember({"hf", "gguf", "adapter"}))
      ->type_name("WORD");
  verb->add_option("--dtype", arguments->dtype, "Of a GGUF file's matrices (default: f16)")
      ->check(CLI::IsMember({"f16", "q8_0", "bf16", "f32"}))
      ->type_name("WORD");
  verb->add_flag("--adapter", arguments->adapter, "With --format gguf: what lora trained alone");
  verb->add_flag("--nearest-tokenizer", arguments->nearest_tokenizer,
                 "With --format gguf: also if llama.cpp makes other tokens of some texts, which "
                 "the model card says");
  add_trust_module(*verb, arguments->trust_module);
  verb->callback([=, &action] { action = [=] { return run_export(*arguments); }; });
}

}  // namespace accrue::cli
