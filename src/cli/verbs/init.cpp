#include <array>
#include <filesystem>
#include <memory>

#include "accrue/core/error.h"
#include "cli/arguments/commands.h"
#include "cli/arguments/first_choice.h"
#include "cli/arguments/typed_keys.h"
#include "cli/help/verb_help.h"
#include "cli/output/print_text.h"
#include "cli/output/progress_on_stderr.h"
#include "cli/output/row.h"
#include "core/atomic_file.h"
#include "core/printable.h"
#include "train/plan/make_run_plan.h"
#include "train/workload/first/first_config.h"
#include "train/workload/workload.h"

namespace accrue::cli {
namespace {

struct InitArguments {
  std::vector<std::string> files;
  std::string format = "auto";
  std::string out = "accrue.toml";
};

std::string as_typed(const InitArguments& arguments) {
  std::string text = "accrue init";
  for (const std::string& file : arguments.files) text += ' ' + file;
  if (arguments.format != "auto") text += " --format " + arguments.format;
  return text;
}

/// This is checked before the files are inspected, which may take long.
void check_can_be_written(const std::filesystem::path& out) {
  std::error_code unreadable;
  if (std::filesystem::exists(std::filesystem::symlink_status(out, unreadable)))
    throw usage_error("accrue init", "a file that does not exist yet",
                      out.string() + ", which does",
                      "--out with another name, or moving that file");
  const std::filesystem::path folder = out.has_parent_path() ? out.parent_path() : ".";
  if (!out.has_filename() || !std::filesystem::is_directory(folder, unreadable))
    throw usage_error("accrue init", "the name of a file in a folder that exists",
                      "--out \"" + out.string() + "\"", "accrue.toml, or making the folder");
}

/// The keys whose values this verb takes from its arguments.
constexpr std::array init_keys{TypedKey{"data.format", "--format"},
                               TypedKey{"model.from", "the model in FILES"},
                               TypedKey{"data.tokenizer", "the tokenizer"}};

train::DataFacts inspect(const InitArguments& arguments, const ShowProgress& show) {
  try {
    train::FirstFiles files = train::sort_out(arguments.files);
    files.format = data::format_words.find(arguments.format);
    return train::inspect_data(files, show);
  } catch (const Error& error) {
    throw in_typed_words(error, init_keys, "accrue init");
  }
}

int run_init(const InitArguments& arguments) {
  check_can_be_written(arguments.out);
  const ShowProgress show = progress_on_stderr();
  const train::DataFacts data = inspect(arguments, show);
  const std::string config =
      train::first_config(data, machine_facts(), {.command = as_typed(arguments)});
  // A config that train would refuse is refused here, with the same message.
  const train::Workload work =
      train::open_workload(train::parse_config(config, arguments.out), show);
  write_file_atomically(arguments.out, config);
  print_text("%s\n", config.c_str());
  for (const std::string& remark : train::data_remarks(work.data)) print_row("note", remark);
  const std::string out = printable_line(arguments.out);
  print_text("wrote %s; next:\n  accrue train %s --dry-run\n  accrue train %s\n", out.c_str(),
             out.c_str(), out.c_str());
  return 0;
}

}  // namespace

void add_init(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("init", "Write a config that trains on the given files");
  set_help(
      *verb,
      {.heading = heading::train,
       .text = "Takes text, token files (.bin), JSON lines (.jsonl), images (a folder per class), "
               "folders of these, and a model folder to start from. Files and folders named val, "
               "valid, dev or test are held out for validation, also beside train in a folder. "
               "No file is overwritten.",
       .examples = {"accrue init tale.txt && accrue train accrue.toml --dry-run",
                    "accrue init chats.jsonl models/smollm2 --out chat.toml"}});
  auto arguments = std::make_shared<InitArguments>();
  verb->add_option("FILES", arguments->files, "What to train on")->required();
  verb->add_option("--format", arguments->format, "What they hold")
      ->check(CLI::IsMember({"auto", "text", "tokens", "jsonl", "chat", "parquet", "images"}))
      ->capture_default_str();
  verb->add_option("--out", arguments->out, "The config file to write")->capture_default_str();
  verb->callback([=, &action] { action = [=] { return run_init(*arguments); }; });
}

}  // namespace accrue::cli
