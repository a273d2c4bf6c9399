#include <iostream>
#include <memory>
#include <optional>

#include "accrue/core/atomic_file.h"
#include "accrue/core/error.h"
#include "accrue/models/gpt2_io.h"
#include "accrue/train/run_directory.h"
#include "commands/byte_tokenizer.h"
#include "commands/commands.h"
#include "commands/model_card.h"
#include "commands/trained_text.h"

namespace accrue::cli {
namespace {

namespace fs = std::filesystem;

struct ExportArguments {
  std::string run;
  std::string out;
  std::optional<std::int64_t> checkpoint;
};

/// save_gpt2_folder guards the model's own files; these are the ones written beside them.
void check_nothing_is_replaced(const fs::path& folder) {
  std::error_code unreadable;
  for (const char* name : {"README.md", "tokenizer.json", "tokenizer_config.json"})
    if (fs::exists(fs::symlink_status(folder / name, unreadable)))
      throw usage_error("export to " + folder.string(), "a new or empty folder",
                        std::string("one with a ") + name, "another --out");
}

int run_export(const ExportArguments& arguments) {
  const train::RunDirectory run(arguments.run);
  const fs::path out(arguments.out);
  check_nothing_is_replaced(out);
  const train::Config config = run.config();
  const fs::path checkpoint = train::find_checkpoint(run, arguments.checkpoint);
  const std::unique_ptr<models::Model> loaded = train::load_model(run, arguments.checkpoint);
  const models::Gpt2& model = expect_gpt2(
      *loaded, "accrue export",
      "the checkpoint's model.safetensors, which has the names of a PyTorch state_dict");
  const bool byte_tokens = trained_on_bytes(config, model);
  models::save_gpt2_folder(out, model);
  if (byte_tokens) write_byte_tokenizer(out, model.options().context);
  write_file_atomically(out / "README.md", model_card(config, model.options(),
                                                      checkpoint.filename().string(), byte_tokens));
  std::cout << out.string() << std::endl;
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("export", "Write a run's model as a folder that transformers loads");
  verb->footer(
      "The folder holds config.json, model.safetensors, the tokenizer and a model card.\n\n"
      "Example:\n"
      "  accrue export runs/first --out models/first\n"
      "  python -c 'from transformers import GPT2LMHeadModel as M; "
      "M.from_pretrained(\"models/first\")'");
  auto arguments = std::make_shared<ExportArguments>();
  verb->add_option("RUN_DIR", arguments->run, "Folder of a run")->required();
  verb->add_option("--out", arguments->out, "Folder to write")->required()->type_name("DIR");
  verb->add_option("--checkpoint", arguments->checkpoint, "Step (default: the newest checkpoint)")
      ->type_name("STEP");
  verb->callback([=, &action] { action = [=] { return run_export(*arguments); }; });
}

}  // namespace accrue::cli
