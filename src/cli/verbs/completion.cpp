#include "cli/help/completion.h"

#include <CLI/Validators.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "cli/arguments/commands.h"
#include "cli/help/verb_help.h"

namespace accrue::cli {
namespace {

std::string completion_for(const std::string& shell, const CLI::App& app) {
  if (shell == "bash") return bash_completion(app);
  if (shell == "zsh") return zsh_completion(app);
  return fish_completion(app);
}

}  // namespace

void add_completion(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("completion", "Print a script that completes commands in a shell");
  set_help(*verb,
           {.heading = heading::reference,
            .text = "Verbs, options, their words and the keys of a config are completed. Add "
                    "the example of your shell to its start-up file.",
            .examples = {"eval \"$(accrue completion bash)\"   # in ~/.bashrc",
                         "source <(accrue completion zsh)    # in ~/.zshrc",
                         "accrue completion fish | source    # in ~/.config/fish/config.fish"}});
  auto shell = std::make_shared<std::string>();
  verb->add_option("SHELL", *shell, "The shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  verb->callback([=, &action, &app] {
    action = [=, &app] {
      std::cout << completion_for(*shell, app);
      return 0;
    };
  });
}

}  // namespace accrue::cli
