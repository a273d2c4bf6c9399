#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>

#include "accrue/core/error.h"
#include "cli/arguments/commands.h"
#include "cli/help/manual_page.h"
#include "cli/help/verb_help.h"
#include "core/atomic_file.h"

namespace accrue::cli {
namespace {

/// Writes the page of `app`, and those of its verbs and their actions, such as accrue-train.1.
void write_pages(const CLI::App& app, const std::filesystem::path& folder) {
  write_file_atomically(folder / (page_name(app) + ".1"), manual_page(app));
  for (const CLI::App* verb : app.get_subcommands({})) write_pages(*verb, folder);
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!std::filesystem::is_directory(folder, error))
    throw usage_error("accrue manual", "a folder that can be made",
                      "--out \"" + folder.string() + "\"", "a folder of your own");
}

}  // namespace

void add_manual(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("manual", "Print or write the manual pages");
  set_help(*verb, {.heading = heading::reference,
                   .text = "Without --out the page of the program is printed. An installation "
                           "writes all pages, which man then shows.",
                   .examples = {"accrue manual | man -l -",
                                "accrue manual --out ~/.local/share/man/man1"}});
  auto folder = std::make_shared<std::string>();
  verb->add_option("--out", *folder, "Folder to write a page for each verb into")->type_name("DIR");
  verb->callback([=, &action, &app] {
    action = [=, &app] {
      if (folder->empty()) {
        std::cout << manual_page(app);
      } else {
        make_folder(*folder);
        write_pages(app, *folder);
      }
      return 0;
    };
  });
}

}  // namespace accrue::cli
