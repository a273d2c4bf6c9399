#include <c10/util/Exception.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <string_view>

#include "accrue/core/error.h"
#include "accrue/memory/caching_allocator.h"
#include "commands/command_line.h"
#include "commands/commands.h"
#include "commands/standard_output.h"
#include "commands/stop_signals.h"
#include "core/cause.h"

namespace {

using accrue::cli::Action;
using accrue::cli::Arguments;

constexpr int failed = 1;
constexpr int refused = 3;

/// Parses, then runs what was asked for. `--help` and `--version` are answered while parsing.
int dispatch(const Arguments& typed) {
  CLI::App app("Train with any batch size on the memory you have.", "accrue");
  app.set_version_flag("--version", accrue::cli::version_text);
  app.require_subcommand(1);
  app.footer("Example:\n  accrue train gpt.toml --run.out=runs/first\n  accrue train --help");
  Action action;
  accrue::cli::add_init(app, action);
  accrue::cli::add_train(app, action, typed);
  accrue::cli::add_data(app, action);
  accrue::cli::add_tokenize(app, action);
  accrue::cli::add_sample(app, action);
  accrue::cli::add_eval(app, action);
  accrue::cli::add_predict(app, action);
  accrue::cli::add_export(app, action);
  accrue::cli::add_checkpoint(app, action);
  accrue::cli::add_bench(app, action);
  accrue::cli::add_plan(app, action);
  accrue::cli::add_verify(app, action);
  accrue::cli::add_doctor(app, action);
  accrue::cli::add_report(app, action);
  accrue::cli::add_runs(app, action);
  accrue::cli::add_compare(app, action);
  accrue::cli::check_verb(app, typed);
  try {
    app.parse(Arguments(typed.rbegin(), typed.rend() - 1));
  } catch (const CLI::Success& help_or_version) {
    return app.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    throw accrue::usage_error("command line", "arguments as the verb's --help describes them",
                              error.what(), "accrue " + typed[1] + " --help");
  }
  return action();
}

int report(const std::string& message, int status) {
  std::cerr << "error: " << message << std::endl;
  return status;
}

int run(int count, char** words) {
  accrue::cli::occupy_standard_streams();
  // Other verbs leave nothing half-made, and end by the signal, as the shell expects of a command.
  if (count > 1 && words[1] == std::string_view("train")) accrue::cli::leave_on_stop_signals();
  // A reader that went away (a closed pipe) must not end a run.
  std::signal(SIGPIPE, SIG_IGN);
  // A limit on the size of files is met as a full disk is: by an error.
  std::signal(SIGXFSZ, SIG_IGN);
  accrue::memory::install_caching_allocator(accrue::memory::BudgetOf::process);
  try {
    return accrue::cli::finish_output(
        dispatch(accrue::cli::with_help_option({words, words + count})));
  } catch (const accrue::Error& error) {
    return report(error.what(), error.exit_code());
  } catch (const c10::OutOfMemoryError& error) {
    return report(accrue::cause_of(error), accrue::memory::budget() ? refused : failed);
  } catch (const std::bad_alloc&) {
    return report(
        "allocate memory: expected enough for one micro-batch, received a refusal by the "
        "system; try a smaller batch.micro",
        failed);
  } catch (const c10::Error& error) {
    return report("libtorch: " + accrue::cause_of(error), failed);
  } catch (const std::exception& error) {
    return report(accrue::cause_of(error), failed);
  }
}

}  // namespace

int main(int count, char** words) {
  const int status = run(count, words);
  std::cout.flush();
  std::fflush(nullptr);
  // Threads that wait for a rank that is gone may outlive their group: nothing is taken from under
  // them.
  std::_Exit(status);
}
