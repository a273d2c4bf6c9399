#include "train/workload/predict.h"

#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "accrue/core/error.h"
#include "cli/arguments/commands.h"
#include "cli/help/verb_help.h"
#include "cli/output/progress_on_stderr.h"
#include "cli/process/exit_status.h"
#include "cli/process/print_error.h"
#include "cli/process/trusted_module.h"
#include "core/printable.h"
#include "data/images/sets/image_files.h"
#include "train/plan/setup.h"

namespace accrue::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t classes_told = 5;

struct PredictArguments {
  std::string run;
  std::vector<std::string> images;
  std::optional<std::int64_t> checkpoint;
  bool trust_module = false;
  bool json = false;
};

Json to_json(const train::ClassProbability& one) {
  return {{"class", one.name}, {"index", one.index}, {"probability", one.probability}};
}

Json to_json(const train::Prediction& prediction) {
  Json json{{"path", prediction.file.string()}};
  json.update(to_json(prediction.top.front()));
  json["top"] = Json::array();
  for (const train::ClassProbability& one : prediction.top) json["top"].push_back(to_json(one));
  return json;
}

void print(const train::Prediction& prediction) {
  std::string line = prediction.file.string();
  for (const train::ClassProbability& one : prediction.top) {
    char probability[32];
    std::snprintf(probability, sizeof probability, "%.4f", one.probability);
    line += "  " + one.name + " " + probability;
  }
  std::cout << printable_line(line) << '\n';
}

void name_unread(const train::Prediction& prediction) {
  print_error(runtime_error("predict " + prediction.file.string(), "an image", prediction.failure,
                            "leaving it out")
                  .what());
}

int run_predict(const PredictArguments& arguments) {
  train::use_threads(0);
  train::TrainedModel trained = during(progress_on_stderr(), "loading " + arguments.run, [&] {
    return train::load_trained_model(train::RunDirectory(arguments.run), arguments.checkpoint, {},
                                     module_trust(arguments.trust_module));
  });
  Json result{{"checkpoint", trained.step}, {"images", Json::array()}, {"unread", Json::array()}};
  train::Classifier classifier(std::move(trained));
  const std::vector<std::filesystem::path> files =
      data::find_images(arguments.images, "accrue predict");
  classifier.predict(files, classes_told, [&](const train::Prediction& prediction) {
    if (!prediction.failure.empty()) {
      name_unread(prediction);
      result["unread"].push_back(
          {{"path", prediction.file.string()}, {"reason", prediction.failure}});
    } else if (arguments.json) {
      result["images"].push_back(to_json(prediction));
    } else {
      print(prediction);
    }
  });
  // Names of files and classes may be any bytes.
  if (arguments.json)
    std::cout << result.dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
  return exit_status_of_check(result["unread"].empty(), Error::Kind::runtime);
}

}  // namespace

void add_predict(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("predict", "Classify images with a trained model");
  set_help(*verb, {.heading = heading::models,
                   .text = "Prints a line for each image: its path, and the five likeliest classes "
                           "with their probabilities. Images are scaled to the size that the model "
                           "was trained on. A file that is no image is named on stderr; the others "
                           "are classified, and the exit status is 1.",
                   .examples = {"accrue predict runs/pets photos",
                                "accrue predict runs/pets a.jpg b.png --json"}});
  auto arguments = std::make_shared<PredictArguments>();
  verb->add_option("RUN_DIR", arguments->run, "Folder of a run")->required();
  verb->add_option("IMAGES", arguments->images, "Image files, folders of them, or patterns")
      ->required();
  verb->add_option("--checkpoint", arguments->checkpoint, "Step (default: the newest checkpoint)")
      ->type_name("STEP");
  add_trust_module(*verb, arguments->trust_module);
  verb->add_flag("--json", arguments->json, "One JSON object on stdout");
  verb->callback([=, &action] { action = [=] { return run_predict(*arguments); }; });
}

}  // namespace accrue::cli
