#pragma once

#include <initializer_list>
#include <string>

#include "accrue/train/run_directory.h"
#include "cli/exported_text.h"

namespace accrue::cli {

/// What every model card begins with: the Hub's front matter and a title.
std::string card_head(const std::string& library, const std::string& task,
                      std::initializer_list<std::string> tags, const std::string& title);

/// "Written by accrue 0.1.0 from step-00000010.\n", for this version and checkpoint.
std::string written_from(const train::TrainedModel& trained);

/// What the Python of a card needs: names of packages as pip knows them, separated by spaces.
std::string needed_packages(const std::string& packages);

/// The chat templates of a model that has any, and what ends an answer; empty for others.
std::string chat_section(const ExportedText& text);

/// What every model card ends with: the run's config.
std::string training_section(const train::TrainedModel& trained);

}  // namespace accrue::cli
