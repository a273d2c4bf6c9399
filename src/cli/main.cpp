#include "accrue/cli/main.h"

#include <c10/util/Exception.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "cli/arguments/command_line.h"
#include "cli/arguments/commands.h"
#include "cli/arguments/parse_error.h"
#include "cli/help/help_page.h"
#include "cli/help/verb_help.h"
#include "cli/output/text_table.h"
#include "cli/process/exit_status.h"
#include "cli/process/print_error.h"
#include "cli/process/process_needs.h"
#include "cli/process/program.h"
#include "cli/process/standard_output.h"
#include "cli/process/stop_signals.h"
#include "core/cause.h"
#include "core/printable_streams.h"

namespace accrue {
namespace {

using cli::Action;
using cli::Arguments;
using cli::Program;

/// The verbs of a program that provides a model.
void add_verbs_of_models(CLI::App& app, Action& action, const Arguments& typed,
                         const Program& program) {
  cli::add_train(app, action, typed, program);
  cli::add_plan(app, action, program);
  cli::add_verify(app, action, program);
  cli::add_bench(app, action, program);
  cli::add_doctor(app, action, program);
  cli::add_data(app, action, program);
}

void add_verbs_of_folders(CLI::App& app, Action& action) {
  cli::add_checkpoint(app, action);
  cli::add_report(app, action);
  cli::add_runs(app, action);
  cli::add_compare(app, action);
}

/// The verbs that explain the others and the config.
void add_verbs_of_reference(CLI::App& app, Action& action) {
  cli::add_keys(app, action);
  cli::add_completion(app, action);
  cli::add_manual(app, action);
}

/// Help in lines that fit the terminal; in a file, of a width that reads well.
std::shared_ptr<CLI::FormatterBase> help_in_lines() {
  return std::make_shared<CLI::FormatterLambda>(
      [](const CLI::App* app, const std::string&, CLI::AppFormatMode) {
        return cli::help_page(*app, cli::page_width());
      });
}

/// The verbs that only take accrue's own models.
void add_verbs_of_own_models(CLI::App& app, Action& action) {
  cli::add_tokenize(app, action);
  cli::add_sample(app, action);
  cli::add_eval(app, action);
  cli::add_predict(app, action);
  cli::add_export(app, action);
}

/// Parses, then runs the requested action. `--help` and `--version` are answered while parsing.
int dispatch(const Arguments& typed, const Program& program) {
  CLI::App app("Gradient accumulation: train with any effective batch size on the memory at hand.",
               program.name);
  app.formatter(help_in_lines());
  app.set_version_flag("-V,--version", cli::version_text, "Print the versions and exit");
  app.require_subcommand(1);
  cli::set_help(app, {.heading = {},
                      .text = {},
                      .examples = {program.name + " train gpt.toml --run.out=runs/first",
                                   program.name + " keys batch"}});
  Action action, of_folders;
  if (!program.brings_a_model()) cli::add_init(app, action);
  add_verbs_of_models(app, action, typed, program);
  add_verbs_of_folders(app, of_folders);
  if (!program.brings_a_model()) add_verbs_of_own_models(app, action);
  add_verbs_of_reference(app, of_folders);
  cli::check_verb(app, typed);
  try {
    app.parse(Arguments(typed.rbegin(), typed.rend() - 1));
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ExtrasError&) {
    throw cli::unknown_option(app, typed);
  } catch (const CLI::ParseError& error) {
    throw cli::usage_error_of(error, app, typed, program.name);
  }
  if (of_folders) return of_folders();
  cli::require_startable_threads();
  return action();
}

/// The message for what is not an Error.
std::string message_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return "allocate memory: expected enough for one micro-batch, received a refusal by the "
           "system; try a smaller batch.micro";
  const auto* refusal = dynamic_cast<const std::system_error*>(&error);
  if (refusal != nullptr && refusal->code() == std::errc::resource_unavailable_try_again)
    return "start a thread: expected one that the work cannot do without, received a refusal by "
           "the system; try a higher limit on processes (ulimit -u, pids.max of the control "
           "group), or more memory for stacks";
  const bool is_of_libtorch = dynamic_cast<const c10::Error*>(&error) != nullptr &&
                              dynamic_cast<const c10::OutOfMemoryError*>(&error) == nullptr;
  return (is_of_libtorch ? "libtorch: " : "") + cause_of(error);
}

int run(int count, char** words, const Program& program) {
  cli::occupy_standard_streams();
  // Other verbs leave nothing half-made, and end by the signal, as the shell expects of a command.
  const bool trains = count > 1 && words[1] == std::string_view("train");
  trains ? cli::leave_on_stop_signals() : cli::take_held_signals();
  // A closed pipe, whose reader is gone, must not end a run.
  std::signal(SIGPIPE, SIG_IGN);
  // Reaching a limit on the size of files is reported as an error, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  memory::install_caching_allocator(memory::BudgetOf::process);
  const PrintableStreams printed;
  try {
    return cli::finish_output(dispatch(cli::with_help_option({words, words + count}), program));
  } catch (const Error& error) {
    cli::print_error(error);
    return error.exit_code();
  } catch (const std::exception& error) {
    cli::print_error(message_of(error));
    return cli::exit_status_of_failure(error, memory::budget().has_value());
  }
}

}  // namespace

int main(int count, char** words) { return run(count, words, {}); }

int main(int count, char** words, train::Custom custom) {
  return run(count, words, cli::program_of(words[0], std::move(custom)));
}

void exit(int status) {
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace accrue
