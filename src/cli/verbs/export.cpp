#include <iostream>
#include <memory>
#include <optional>

#include "accrue/core/error.h"
#include "accrue/models/adapter_io.h"
#include "accrue/models/bert_io.h"
#include "accrue/models/gpt2_io.h"
#include "accrue/models/llama_io.h"
#include "accrue/train/run_directory.h"
#include "cli/arguments/commands.h"
#include "cli/export/carried_files.h"
#include "cli/export/export_folder.h"
#include "cli/export/exported_text.h"
#include "cli/export/gguf_export.h"
#include "cli/export/model_card.h"
#include "cli/help/verb_help.h"
#include "cli/output/progress_on_stderr.h"
#include "cli/process/trusted_module.h"
#include "cli/text/continuation.h"
#include "cli/text/trained_text.h"
#include "core/atomic_file.h"
#include "core/printable.h"
#include "data/tokenizer/folder/tokenizer_files.h"
#include "models/files/hub/vision_io.h"
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

models::ImageTask image_task(const train::ModelConfig& model) {
  models::ImageTask task;
  if (model.image.size() != task.image.size()) return task;
  std::copy(model.image.begin(), model.image.end(), task.image.begin());
  for (std::int64_t i = 0; i < model.vocab.value_or(0); ++i)
    task.classes.push_back(train::class_name(model, i));
  return task;
}

/// Writes files of a model. Notes are printed before or after it, and not beside a line that is
/// redrawn.
template <class Write>
void while_writing(const Write& write) {
  during(progress_on_stderr(), "writing the model", write);
}

/// Saves the model and returns its card.
std::string save_language_model(const fs::path& out, const train::RunDirectory& run,
                                const train::TrainedModel& trained,
                                const models::LanguageModel& model) {
  const Continuation continuation = continuation_of(run, trained, model, "export");
  while_writing([&] {
    if (const auto* gpt2 = dynamic_cast<const models::Gpt2*>(&model))
      models::save_gpt2_folder(out, *gpt2);
    if (const auto* llama = dynamic_cast<const models::Llama*>(&model))
      models::save_llama_folder(out, *llama);
  });
  if (trained_on_bytes(trained))
    data::write_byte_tokenizer(out, model.context());
  else if (!trained.config.model.from.empty())
    carry_vocabulary(trained.config.model.from, out,
                     /*with_settings=*/continuation.tokenizer_file.empty());
  return language_model_card(trained, write_text_files(out, trained, continuation, model));
}

/// Saves the model and returns its card.
std::string save_masked_model(const fs::path& out, const train::TrainedModel& trained,
                              const models::Bert& model) {
  const bool byte_tokens = trained_on_bytes(trained);
  while_writing([&] { models::save_bert_folder(out, model); });
  if (byte_tokens)
    data::write_byte_tokenizer(out, model.options().context,
                               trained.config.loss.mask_token.value_or(train::byte_vocabulary));
  const fs::path tokenizer = tokenizer_file_of(trained), from = trained.config.model.from;
  // First, so that files which write_tokenizer() omits stay out.
  if (!from.empty() && !byte_tokens)
    carry_vocabulary(from, out, /*with_settings=*/tokenizer.empty());
  if (!tokenizer.empty()) write_tokenizer(out, tokenizer);
  return masked_model_card(trained, byte_tokens);
}

/// Saves the adapters and returns their card.
std::string save_adapters(const fs::path& out, const train::RunDirectory& run,
                          const train::TrainedModel& trained) {
  const auto* model = dynamic_cast<const models::LanguageModel*>(trained.model.get());
  if (model == nullptr)
    throw usage_error("export --format adapter", "a gpt2 or llama with adapters",
                      std::string(to_string(trained.config.model.kind)), "--format hf");
  if (!model->adapters().any())
    throw usage_error("export --format adapter", "a model that has adapters", "one without",
                      "lora.rank = 8 in the run's config, or --format hf");
  while_writing([&] { models::save_adapter_folder(out, *model, trained.config.model.from); });
  const Continuation continuation = continuation_of(run, trained, *model, "export");
  return adapter_card(trained, write_text_files(out, trained, continuation, *model));
}

/// Saves the model and returns its card.
std::string save_model(const fs::path& out, const train::RunDirectory& run,
                       const train::TrainedModel& trained) {
  const models::Model& model = *trained.model;
  const models::ImageTask task = image_task(trained.config.model);
  if (const auto* language_model = dynamic_cast<const models::LanguageModel*>(&model))
    return save_language_model(out, run, trained, *language_model);
  if (const auto* bert = dynamic_cast<const models::Bert*>(&model))
    return save_masked_model(out, trained, *bert);
  while_writing([&] {
    if (const auto* vit = dynamic_cast<const models::Vit*>(&model))
      models::save_vit_folder(out, *vit, task);
    if (const auto* resnet = dynamic_cast<const models::ResNet*>(&model))
      models::save_resnet_folder(out, *resnet, task);
    if (const auto* module = dynamic_cast<const models::TorchScriptModel*>(&model))
      models::save_torchscript_folder(out, *module, task);
  });
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

/// Saves the requested part and returns its card.
std::string save(const fs::path& out, const train::RunDirectory& run,
                 const train::TrainedModel& trained, const ExportArguments& arguments) {
  if (arguments.format == "adapter") return save_adapters(out, run, trained);
  if (arguments.format != "gguf") return save_model(out, run, trained);
  if (arguments.adapter) return save_gguf_adapter(out, trained);
  GgufExport wanted{.dtype = models::gguf_dtype_words.find(arguments.dtype.value_or("f16")).value(),
                    .nearest_tokenizer = arguments.nearest_tokenizer};
  if (const auto* model = dynamic_cast<const models::LanguageModel*>(trained.model.get()))
    wanted.end_tokens = continuation_of(run, trained, *model, "export").ends;
  return save_gguf(out, trained, wanted);
}

/// An error of writing into `files`, reported for the folder that the files are meant for.
Error in_its_place(const Error& error, const fs::path& files, const fs::path& out) {
  std::string operation = error.operation();
  if (const std::size_t at = operation.find(files.string()); at != operation.npos)
    operation.replace(at, files.string().size(), out.string());
  return {error.kind(), operation, error.expected(), error.received(), error.suggestion()};
}

int run_export(const ExportArguments& arguments) {
  const fs::path out(arguments.out);
  if (out.empty())
    throw usage_error("accrue export", "a new or empty folder", "--out \"\"", "a name for it");
  check_options(arguments);
  ExportFolder::check(out);
  const train::RunDirectory run(arguments.run);
  const train::TrainedModel trained = during(progress_on_stderr(), "loading " + arguments.run, [&] {
    return train::load_trained_model(run, arguments.checkpoint, {},
                                     module_trust(arguments.trust_module));
  });
  ExportFolder folder(out);
  try {
    const std::string card = save(folder.files(), run, trained, arguments);
    write_file_atomically(folder.files() / "README.md", card);
  } catch (const Error& error) {
    throw in_its_place(error, folder.files(), out);
  }
  folder.commit();
  std::cout << printable_line(out.string()) << std::endl;
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("export", "Write a run's model as a folder that other libraries load");
  set_help(*verb,
           {.heading = heading::models,
            .text = "A gpt2, llama, bert or vit becomes a folder that transformers loads, a resnet "
                    "one with torchvision's names, a TorchScript module a model.pt; each with "
                    "config.json and a model card. Adapters are merged into their base, or written "
                    "on their own as PEFT loads them (--format adapter). A gpt2 or llama also "
                    "becomes a file that llama.cpp loads (--format gguf).",
            .examples = {"accrue export runs/first --out models/first",
                         "python -c 'from transformers import GPT2LMHeadModel as M; "
                         "M.from_pretrained(\"models/first\")'"}});
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
