#pragma once

#include <initializer_list>
#include <string>

#include "accrue/train/run_directory.h"
#include "cli/export/exported_text.h"

namespace accrue::cli {

/// The beginning of every model card: the Hub's front matter and a title.
std::string card_head(const std::string& library, const std::string& task,
                      std::initializer_list<std::string> tags, const std::string& title);

/// "Written by accrue 0.1.0 from step-00000010.\n", for this version and checkpoint.
std::string written_from(const train::TrainedModel& trained);

/// The packages that a card's Python needs: names for pip, separated by spaces.
std::string needed_packages(const std::string& packages);

/// The chat templates of a model that has any, and the end of an answer; empty for others.
std::string chat_section(const ExportedText& text);

/// The end of every model card: the run's config.
std::string training_section(const train::TrainedModel& trained);

}  // namespace accrue::cli
