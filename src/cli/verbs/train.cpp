#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/core/units.h"
#include "accrue/distributed/group.h"
#include "accrue/memory/budget.h"
#include "accrue/train/config.h"
#include "accrue/train/run_directory.h"
#include "accrue/train/trainer.h"
#include "cli/arguments/command_line.h"
#include "cli/arguments/commands.h"
#include "cli/arguments/first_choice.h"
#include "cli/arguments/resume_command.h"
#include "cli/arguments/train_target.h"
#include "cli/arguments/typed_keys.h"
#include "cli/help/verb_help.h"
#include "cli/output/progress_on_stderr.h"
#include "cli/output/row.h"
#include "cli/process/program.h"
#include "cli/process/stop_signals.h"
#include "cli/process/trusted_module.h"
#include "core/notice_signal.h"
#include "memory/plan.h"
#include "train/config/toml/toml_reader.h"
#include "train/measure/trace.h"
#include "train/plan/setup.h"
#include "train/ranks/meeting.h"
#include "train/ranks/rank_conflicts.h"
#include "train/workload/first/chosen_config.h"
#include "train/workload/placement.h"
#include "train/workload/workload.h"
#include "verify/operations/device_conformance.h"

namespace accrue::cli {
namespace {

struct TrainArguments {
  std::string config;
  std::vector<std::string> more;  // further words
  std::string checkpoint;
  bool trust_module = false;
  std::string repeat;  // folder of the run that is repeated; empty: none
  std::string trace;   // file; empty: none
  bool resume = false;
  bool accept_data = false;
  bool dry_run = false;
  bool quiet = false;
  bool trains_on_words = false;  // words in place of CONFIG are data
  std::vector<std::string> overrides;
};

/// Used instead of a checkpoint if a run that does not exist yet is started.
constexpr const char* kWhereThereIsOne = "auto";

std::string text_of(double loss) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", loss);
  return text;
}

/// Prints the step from which a resumption continues, and the change of the run's length.
void print_resumption(const train::Preview& preview) {
  const std::string total = std::to_string(preview.plan.total_steps);
  print_row("resume", !preview.done.empty()
                          ? preview.done
                          : "after step " + std::to_string(preview.step) + ", on to step " + total);
  if (!preview.length.empty()) print_row("length", preview.length);
  if (!preview.batch.empty()) print_row("batch", preview.batch);
}

void print_plan(const train::RunPlan& plan) {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  print_row("model", format_count(static_cast<double>(plan.parameters)) + " parameters");
  print_row("data", number(plan.train_samples) + " training samples, " + number(plan.val_samples) +
                        " validation samples");
  for (const std::string& remark : plan.remarks) print_row("note", remark);
  print_row("effective batch", in_words(plan.effective));
  print_row("micro-batch",
            memory::describe({plan.micro_batch, plan.recompute}) + " (" + plan.micro_reason + ")");
  print_row("steps", number(plan.total_steps) + ", " + number(plan.steps_per_epoch) + " per epoch");
}

void print_result(const train::RunDirectory& run, const train::RunResult& result,
                  const train::ObserveConfig& observe) {
  print_row("run", run.root().string());
  if (observe.jsonl) print_row("metrics", run.metrics_file().string());
  if (!result.checkpoint.empty()) print_row("checkpoint", result.checkpoint.string());
  print_row("step", std::to_string(result.step));
  if (result.loss) print_row("loss", text_of(*result.loss));
  if (result.eval_loss) print_row("eval_loss", text_of(*result.eval_loss));
  if (result.peak_bytes > 0)
    print_row("memory", format_bytes(result.peak_bytes) + " in tensors at most, " +
                            format_bytes(result.peak_reserved_bytes) + " reserved");
  std::fflush(stdout);
}

std::string command_to_resume(const TrainArguments& arguments, const train::RunDirectory& run,
                              const distributed::Launch& launch) {
  const bool by_run = !arguments.repeat.empty() || arguments.config.empty();
  if (by_run) return resume_command(run.config_file().string(), {}, launch);
  return resume_command(arguments.config, arguments.overrides, launch);
}

/// Whether this command states the length, and not only the file from which the run began.
bool states_length(const std::vector<std::string>& overrides) {
  return std::ranges::any_of(
      std::array{"run.steps", "run.tokens", "run.epochs"},
      [&](const char* key) { return train::overrides_state(overrides, key); });
}

/// Whether this command states the batch, and not only the file that the run began with. One in
/// micro-batches depends on the number of ranks, which may be another by chance.
bool states_batch(const std::vector<std::string>& overrides) {
  return train::overrides_state(overrides, "batch.tokens") ||
         train::overrides_state(overrides, "batch.samples");
}

/// The config to train, and its origin.
struct Task {
  train::Config config;
  std::shared_ptr<const train::RunRecord> repeats;  ///< null if no run is repeated
  std::string chosen;  ///< the generated page if there was no config; else empty
};

/// Progress before the first step. The first rank shows it; only the tokens are shown by whichever
/// rank makes them.
ShowProgress progress_of_rank(const TrainArguments& arguments, const distributed::Launch& launch,
                              std::optional<observe::ProgressStyle> stated = std::nullopt) {
  if (arguments.quiet) return {};
  ShowProgress show = progress_on_stderr(stated);
  if (!show || launch.rank == 0) return show;
  return [show = std::move(show)](const OperationProgress& progress) {
    if (progress.name == train::kTokenizing) show(progress);
  };
}

/// Without a config keys are stated by overrides. An error that names the override that was typed
/// stays as it is.
Error in_overrides(const Error& error, const TrainArguments& arguments) {
  if (error.operation().starts_with("config key")) return error;
  return in_typed_words(
      error,
      std::array{
          TypedKey{"data.train", arguments.trains_on_words ? "accrue train" : "--data.train="},
          TypedKey{"data.format", "--data.format="},
          TypedKey{"data.tokenizer", "--data.tokenizer="}, TypedKey{"model.from", "--model.from="}},
      "accrue train");
}

Task task_without_config(const TrainArguments& arguments, const Arguments& typed,
                         const distributed::Launch& launch) {
  std::string command = "accrue";
  for (std::size_t i = 1; i < typed.size(); ++i) command += ' ' + typed[i];
  try {
    train::ChosenConfig chosen = train::choose_config(
        train::with_kept_input(arguments.overrides, launch.world), arguments.resume,
        machine_facts(), command, progress_of_rank(arguments, launch));
    return {std::move(chosen.config), nullptr, std::move(chosen.page)};
  } catch (const Error& error) {
    throw in_overrides(error, arguments);
  }
}

/// Throws a usage Error if a repetition names no folder of its own.
Task task_of(const TrainArguments& arguments, const Arguments& typed,
             const distributed::Launch& launch, const Program& program) {
  if (arguments.repeat.empty())
    return arguments.config.empty() && !program.brings_a_model()
               ? task_without_config(arguments, typed, launch)
               : Task{program.load_config(arguments.config, arguments.overrides), nullptr, {}};
  const bool names_folder = train::overrides_state(arguments.overrides, "run.out");
  if (!names_folder)
    throw usage_error("accrue train --repeat " + arguments.repeat,
                      "a new folder for the run that repeats it", "none", "--run.out=NEW");
  auto record = train::read_run_record(train::RunDirectory(arguments.repeat));
  train::Config config =
      program.with_its_model(train::config_to_repeat(*record, arguments.overrides));
  if (!arguments.trust_module) train::expect_module_to_repeat(*record, config, arguments.overrides);
  return {std::move(config), std::move(record), {}};
}

train::RunOptions options_of(const TrainArguments& arguments, const Task& task,
                             const Arguments& typed, const NoticeWatch& notice) {
  const bool may_begin = arguments.checkpoint == kWhereThereIsOne;
  return {.resume = arguments.resume,
          .may_begin = may_begin,
          .checkpoint = may_begin ? "" : arguments.checkpoint,
          .may_shorten = states_length(arguments.overrides),
          .may_change_batch = states_batch(arguments.overrides),
          .repeats = task.repeats,
          .accept_data = arguments.accept_data,
          .quiet = arguments.quiet,
          .command = typed,
          .notice = &notice};
}

/// Tests run on the CPU and on GPUs. Any other device is checked by each run, which takes seconds.
void expect_device_does_its_part(const train::Config& config) {
  if (train::conflict_of_device(config)) proof::expect_trainable(train::device_of(config));
}

/// Joins the other ranks; null if this process is alone.
std::shared_ptr<distributed::Group> join(const distributed::Launch& launch,
                                         const train::Config& config) {
  if (launch.world == 1) return nullptr;
  return distributed::connect(launch, train::group_options(config));
}

/// Begins a trace; the other ranks are informed if it cannot be written.
void begin_trace(std::optional<train::Trace>& trace, const std::string& file,
                 distributed::Group* group) {
  if (file.empty()) return;
  try {
    trace.emplace(file);
  } catch (const std::exception& error) {
    if (group != nullptr) group->fail(error.what());
    throw;
  }
}

int run_train(const TrainArguments& arguments, const Arguments& typed, const Program& program) {
  // Signals before the run begins are answered by the run: opening data may take long.
  const memory::BudgetWatch budget_from_the_start("");
  const NoticeWatch notice;
  take_held_signals();
  const distributed::Launch launch = distributed::launch_of(distributed::this_environment());
  Task task = task_of(arguments, typed, launch, program);
  train::Config& config = task.config;
  config = train::with_whole_batch(std::move(config), launch.world);
  const bool speaks = launch.rank == 0;
  if (speaks && !arguments.quiet && !task.chosen.empty())
    std::cerr << "no config was given: this one was chosen\n\n" << task.chosen << "\n";
  const bool divides_memory = config.memory.budget_is_auto() && launch.local_world > 1;
  config = train::shared_by(std::move(config), launch.local_world);
  train::expect_runnable_by(config, launch.world);
  expect_device_does_its_part(config);
  const ShowProgress show = progress_of_rank(arguments, launch, config.observe.progress);
  const std::shared_ptr<distributed::Group> group = join(launch, config);
  if (speaks && divides_memory && !arguments.quiet)
    std::cerr << "memory.budget = \"auto\": " << config.memory.budget << " for each of the "
              << launch.local_world << " ranks on this machine\n";
  if (arguments.dry_run) {
    const train::Preview preview =
        train::Trainer(config, group, show).preview(options_of(arguments, task, typed, notice));
    if (speaks) print_plan(preview.plan);
    if (speaks)
      for (const std::string& sentence : preview.repetition) print_row("repeat", sentence);
    if (speaks && preview.resumes) print_resumption(preview);
    if (group) group->barrier("the end of the plan");
    return 0;
  }
  std::optional<train::Trace> trace;
  if (speaks) begin_trace(trace, arguments.trace, group.get());
  train::Trainer trainer(config, group, show);
  const train::RunResult result = trainer.run(options_of(arguments, task, typed, notice));
  ignore_stop_signals();
  const train::RunDirectory run(config.run.out);
  const bool is_first = !group || group->rank() == 0;  // perhaps another one than at first
  if (is_first) print_result(run, result, config.observe);
  if (!result.interrupted) return 0;
  if (is_first)
    std::cerr << "interrupted after step " << result.step
              << "; a checkpoint was written: " << result.checkpoint.string()
              << "; continue with: " << command_to_resume(arguments, run, launch) << "\n";
  return interrupted_status;
}

/// `--resume` takes the word after it, which is the config if there is no other word; with data to
/// choose a config for, only if it is a file. A repeated run has its config.
void find_config(TrainArguments& arguments, bool needs_none) {
  if (!arguments.repeat.empty() || !arguments.config.empty()) return;
  const bool may_choose = needs_none || train::overrides_state(arguments.overrides, "data.train");
  std::error_code unreadable;
  if (!may_choose || std::filesystem::is_regular_file(arguments.checkpoint, unreadable))
    std::swap(arguments.config, arguments.checkpoint);
  if (arguments.config.empty() && !may_choose)
    throw usage_error(
        "accrue train", "CONFIG, or data to choose a config for", "none",
        "accrue train CONFIG, or accrue train --data.train=FILE, for which a config is chosen");
}

/// Replaces a run or data given instead of a config by the config that they stand for.
void resolve_config(TrainArguments& arguments) {
  const bool has_words = !arguments.config.empty();
  TrainTarget target = resolved(
      {std::move(arguments.config), std::move(arguments.more), std::move(arguments.overrides)},
      arguments.resume);
  arguments.config = std::move(target.config);
  arguments.overrides = std::move(target.overrides);
  arguments.trains_on_words = has_words && arguments.config.empty();
}

}  // namespace

void add_train(CLI::App& app, Action& action, const Arguments& typed, const Program& program) {
  CLI::App* verb = app.add_subcommand("train", "Train a model as a config file states");
  verb->allow_extras();
  set_help(
      *verb,
      {.heading = heading::train,
       .text =
           "--section.key=value overrides a key of the config: a TOML value or a bare word. "
           "Data files in place of CONFIG, and a model folder beside them, have a config chosen "
           "for them, as init does. A run ends with status 0, or with 130 after SIGINT, SIGTERM, "
           "SIGHUP or SIGXCPU, with a "
           "checkpoint written.",
       .examples = {"accrue train gpt.toml --run.out=runs/first --batch.tokens=16k --optim.lr=1e-3",
                    "accrue train runs/first --resume",
                    "torchrun --no-python --nproc-per-node=2 accrue train gpt.toml --resume auto",
                    "accrue train tale.txt --model.from=SmolLM2-135M   # a config is chosen",
                    "accrue train --repeat runs/first --run.out=runs/second"}});
  auto arguments = std::make_shared<TrainArguments>();
  CLI::Option* config = add_config(*verb, arguments->config);
  config->description(
      "Config file (TOML), a run to resume, or files of data to choose a config for");
  CLI::Option* resume =
      verb->add_option("--resume", arguments->checkpoint,
                       "Continue the run in run.out, from the newest whole checkpoint or this one "
                       "(a step or a folder); auto: begin it if there is none")
          ->expected(0, 1)
          ->type_name("[CHECKPOINT]");
  CLI::Option* repeat =
      verb->add_option("--repeat", arguments->repeat,
                       "Train the run of this folder again from its beginning, with its config and "
                       "its plan, into a new run.out")
          ->type_name("RUN_DIR")
          ->excludes(resume)
          ->excludes(config);
  CLI::Option* accept =
      verb->add_flag("--accept-data", arguments->accept_data,
                     "With --resume: go on with files that were changed since, where they hold as "
                     "many samples as before; with --repeat: take them as they are");
  add_trust_module(*verb, arguments->trust_module);
  verb->add_flag("--dry-run", arguments->dry_run, "Print what the run would be and write nothing");
  verb->add_flag("--quiet", arguments->quiet,
                 "Print errors and the result alone, and not how the run goes");
  verb->add_option("--trace", arguments->trace,
                   "Write what each thread does and waits for into this new file (for Perfetto or "
                   "chrome://tracing)")
      ->type_name("FILE");
  verb->callback([=, &action, &typed, &program] {
    arguments->resume = resume->count() > 0;
    if (arguments->trust_module && repeat->count() == 0)
      throw CLI::RequiresError("--trust-module", "--repeat");
    if (accept->count() > 0 && resume->count() + repeat->count() == 0)
      throw CLI::RequiresError("--accept-data", "--resume or --repeat");
    WordsOfVerb words =
        program.brings_a_model() ? WordsOfVerb{take_overrides(*verb), {}} : take_words(*verb);
    arguments->overrides = std::move(words.overrides);
    arguments->more = std::move(words.files);
    find_config(*arguments, program.brings_a_model());
    if (!program.brings_a_model()) resolve_config(*arguments);
    action = [=, &typed, &program] { return run_train(*arguments, typed, program); };
  });
}

}  // namespace accrue::cli
