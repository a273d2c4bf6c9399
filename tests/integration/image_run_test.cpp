#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "accrue_program.h"
#include "support/png.h"

/// From a folder of images to a model that names the classes of others.
namespace accrue::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using json = nlohmann::json;

class ImageRun : public AccrueProgram {
 protected:
  /// Dark and light images, all of different sizes; every third is in colour.
  void write_images() const {
    for (int i = 0; i < 24; ++i) {
      const bool light = i % 2 == 1;
      const int width = 9 + i % 7, height = 9 + i % 5, channels = i % 3 == 0 ? 3 : 1;
      const std::string pixels(static_cast<std::size_t>(width * height * channels),
                               static_cast<char>((light ? 200 : 10) + i));
      write_image(
          std::string("images/") + (light ? "light" : "dark") + "/" + std::to_string(10 + i),
          png_of(width, height, channels, pixels));
    }
    write("run.toml",
          "[run]\nout = \"out\"\nsteps = 30\nthreads = 1\ncheckpoint_every = 30\n"
          "[model]\nkind = \"resnet\"\nlayers = 8\nwidth = 4\nbatchnorm = \"exact\"\n"
          "[data]\ntrain = [\"images/*/*.png\"]\n"
          "[batch]\nsamples = 8\nmicro = 4\n[optim]\nlr = 1e-2\n");
  }
  void write_image(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write(name + ".png", content);
  }

  Program::Result succeed(const Words& words) const {
    const Program::Result result = accrue(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    return result;
  }
  std::string refused(const Words& words) const {
    const Program::Result result = accrue(words);
    EXPECT_EQ(result.status, 2) << result.errors;
    return result.errors;
  }
  std::string content(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<json> predictions(const Words& images) const {
    Words words{"predict", "out", "--json"};
    words.insert(words.end(), images.begin(), images.end());
    return json::parse(succeed(words).output).at("images");
  }

  /// Changes the checkpoint to the format of versions without checksums and names of classes.
  void make_checkpoint_old() const {
    const std::filesystem::path folder = folder_ / "out/checkpoints/step-00000030";
    json state = json::parse(content("out/checkpoints/step-00000030/state.json"));
    EXPECT_EQ(state.at("model").at("classes"), json({"dark", "light"}));
    state.at("model").erase("classes");
    for (const char* name : {"model.safetensors", "optimizer.safetensors"})
      state["files"][name] = std::filesystem::file_size(folder / name);
    std::ofstream(folder / "state.json") << state.dump();
    std::filesystem::remove(folder / "manifest.json");
  }
};

TEST_F(ImageRun, OneImageForABatchNormIsRefusedByWhatRunsBatches) {
  write_images();
  const Words options{"run.toml", "--model.batchnorm=micro", "--model.layers=18",
                      "--data.image=32"};
  for (const char* verb : {"train", "plan", "bench", "doctor"}) {
    Words words{verb};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back("--batch.micro=1");
    EXPECT_THAT(refused(words), HasSubstr("expected at least 2 samples in each micro-batch"))
        << verb;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  Words two{"plan", "--batch.micro=2"};
  two.insert(two.end(), options.begin(), options.end());
  succeed(two);
}

/// 13 images: the last batch of an epoch may have a single one.
TEST_F(ImageRun, AnImageLeftOverForABatchNormIsRefused) {
  write_images();
  for (int i = 13; i < 24; ++i)
    std::filesystem::remove(folder_ / "images" / (i % 2 == 1 ? "light" : "dark") /
                            (std::to_string(10 + i) + ".png"));
  const auto with = [](const std::string& norm, const Words& more) {
    Words words{"train",           "run.toml",     "--model.batchnorm=" + norm, "--model.layers=18",
                "--data.image=32", "--run.steps=3"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  for (const Words& batch : {Words{"--batch.samples=12", "--batch.micro=12"},
                             Words{"--batch.samples=12", "--batch.micro=1"},
                             Words{"--batch.samples=6", "--batch.micro=6"},
                             Words{"--batch.samples=12", "--batch.micro=11"}})
    EXPECT_THAT(refused(with("micro", batch)),
                HasSubstr("expected at least 2 samples in each micro-batch"))
        << batch.front() << batch.back();
  // Its last batch is not reached.
  succeed(with("micro", {"--run.out=four", "--batch.samples=4", "--batch.micro=2"}));
  EXPECT_THAT(refused(with("exact", {"--run.out=exact", "--batch.samples=12", "--batch.micro=6"})),
              HasSubstr("at least two values a channel in the batch"));
  succeed(with("micro", {"--run.out=dropped", "--batch.samples=12", "--batch.micro=12",
                         "--batch.last=drop"}));
}

/// An error that is only noticed when an image is drawn: one of two images does not decode.
TEST_F(ImageRun, AnImageAloneForABatchNormEndsTheRun) {
  write_images();
  write_image("images/dark/10", content("images/dark/10.png").substr(0, 45));
  const auto train = [&](const std::string& layers, const std::string& norm) {
    return accrue({"train", "run.toml", "--model.layers=" + layers, "--model.batchnorm=" + norm,
                   "--data.image=32", "--batch.samples=2", "--batch.micro=2", "--run.steps=12",
                   "--batch.max_quarantined=1", "--run.out=out" + layers + norm});
  };
  const Program::Result ended = train("18", "micro");
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.errors,
              AllOf(HasSubstr("running statistics that are numbers"), HasSubstr("running_var"),
                    HasSubstr("dark/10.png does not decode"), HasSubstr("data.exclude")));
  EXPECT_EQ(train("18", "convert-group").status, 0) << "a norm that looks at one image";
  EXPECT_EQ(train("8", "micro").status, 0) << "more than one value for each channel";
}

TEST_F(ImageRun, TellsOtherImagesClassesByTheirNames) {
  write_images();
  const std::string told = succeed({"train", "run.toml"}).errors;
  EXPECT_THAT(told, AllOf(HasSubstr("24 images of other sizes are scaled to cover 8 x 8"),
                          HasSubstr("16 images in grey taken as colour")));
  std::filesystem::rename(folder_ / "images", folder_ / "gone");
  write_image("others/a", png_of(30, 40, 1, std::string(1200, '\x05')));
  write_image("others/b", png_of(8, 8, 4, std::string(256, '\xf0')));
  const std::vector<json> found = predictions({"others"});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0]["path"], "others/a.png");
  EXPECT_EQ(found[0]["class"], "dark");
  EXPECT_EQ(found[0]["index"], 0);
  EXPECT_EQ(found[1]["class"], "light");
  EXPECT_EQ(found[1]["top"][0]["class"], "light");
  EXPECT_EQ(found[1]["top"][0]["probability"], found[1]["probability"]);
  EXPECT_GT(found[1]["probability"], 0.5);
  EXPECT_NEAR(found[1]["top"][0]["probability"].get<double>() +
                  found[1]["top"][1]["probability"].get<double>(),
              1, 1e-12);
  const std::string lines = succeed({"predict", "out", "others/a.png", "others/b.png"}).output;
  EXPECT_THAT(lines, AllOf(HasSubstr("others/a.png  dark "), HasSubstr("others/b.png  light ")));
}

TEST_F(ImageRun, NamesWhatIsNoImageAndTellsTheOthers) {
  write_images();
  succeed({"train", "run.toml", "--run.steps=1"});
  write_image("others/a", "no image");
  write_image("others/b", png_of(8, 8, 1, std::string(64, '\xf0')));
  write_image("others/c", "GIF89a");
  const Program::Result result = accrue({"predict", "out", "others", "--json"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, AllOf(HasSubstr("error: predict others/a.png: "), HasSubstr("GIF"),
                                   Not(HasSubstr("b.png"))));
  const json told = json::parse(result.output);
  EXPECT_EQ(told["checkpoint"], 1);
  ASSERT_EQ(told["images"].size(), 1u);
  EXPECT_EQ(told["images"][0]["path"], "others/b.png");
  EXPECT_EQ(told["unread"].size(), 2u);
  EXPECT_THAT(refused({"predict", "out", "none.png"}), HasSubstr("none.png"));
  EXPECT_THAT(refused({"predict", "out", "others", "--checkpoint", "7"}), HasSubstr("step 7"));
}

TEST_F(ImageRun, OfAnEarlierVersionNumbersItsClasses) {
  write_images();
  succeed({"train", "run.toml"});
  const std::vector<json> named = predictions({"images/dark/10.png"});
  make_checkpoint_old();
  const std::vector<json> numbered = predictions({"images/dark/10.png"});
  EXPECT_EQ(named.at(0)["class"], "dark");
  EXPECT_EQ(numbered.at(0)["class"], "0");
  EXPECT_EQ(numbered.at(0)["probability"], named.at(0)["probability"]);
  succeed({"export", "out", "--out", "model"});
  EXPECT_EQ(json::parse(content("model/config.json"))["label_names"], json({"0", "1"}));
  EXPECT_THAT(content("model/README.md"), HasSubstr("2 classes: 0, 1."));
}

TEST_F(ImageRun, IsAskedOfAFolderThatIsNoRun) {
  write_images();
  write("text", "no folder");
  for (const char* name : {"images", "none", "text"}) {
    const std::string expected = std::string("error: open run ") + name +
                                 ": expected a run directory, received none; try the run.out of a "
                                 "training run\n";
    EXPECT_EQ(refused({"predict", name, "images"}), expected);
    EXPECT_EQ(refused({"export", name, "--out", "model"}), expected);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "model"));
  EXPECT_EQ(refused({"export", "out", "--out", ""}),
            "error: accrue export: expected a new or empty folder, received --out \"\"; try a name "
            "for it\n");
}

TEST_F(ImageRun, AndARunOfTextPointToEachOther) {
  write_images();
  succeed({"train", "run.toml", "--run.steps=1"});
  EXPECT_THAT(refused({"sample", "out", "--prompt", "a"}), HasSubstr("try accrue predict out"));
  write_small_run();
  succeed({"train", "run.toml", "--run.out=text", "--run.steps=1"});
  EXPECT_EQ(refused({"predict", "text", "images"}),
            "error: predict: expected a run of images, received one of text or tokens (model.kind "
            "\"gpt2\"); try accrue sample, which continues a text\n");
}

TEST_F(ImageRun, KeepsTheSizeOfItsImagesWhenItIsResumed) {
  write_images();
  succeed({"train", "run.toml", "--run.steps=1"});
  const Words resume{"train", "run.toml", "--run.steps=1", "--resume"};
  const auto with = [&](const std::string& size) {
    Words words = resume;
    words.push_back("--data.image=" + size);
    return words;
  };
  EXPECT_THAT(refused(with("16")),
              AllOf(HasSubstr("images brought to 3 x 8 x 8"), HasSubstr("try --data.image=[8,8]")));
  succeed(with("[8,8]"));
  succeed(with("auto"));
}

TEST_F(ImageRun, ChangesTrainingImagesByTheirDrawsWhereverARunIsCut) {
  write_images();
  const std::string augment = "--data.augment={crop = [0.3, 1], flip = 0.5, brightness = 0.3}";
  const Words run{"train", "run.toml", augment, "--data.val_fraction=0.25"};
  const auto with = [](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const auto weights = [&](const std::string& out) {
    return content(out + "/checkpoints/step-00000006/model.safetensors");
  };
  const Words six{"--run.steps=6", "--optim.schedule.kind=constant"};
  const Program::Result whole = succeed(with(run, with(six, {"--run.out=whole"})));
  EXPECT_THAT(whole.output + whole.errors,
              HasSubstr("in training, images are changed at random: cropped to 0.3 to 1"));
  succeed(with(run, with(six, {"--run.out=cut", "--run.steps=3"})));
  EXPECT_THAT(refused({"train", "run.toml", "--run.out=cut", "--resume", "--run.steps=6",
                       "--optim.schedule.kind=constant", "--data.val_fraction=0.25",
                       "--data.augment={crop = [0.5, 1], flip = 0.5, brightness = 0.3}"}),
              HasSubstr("data.augment.crop"));
  succeed(with(run, with(six, {"--run.out=cut", "--resume"})));
  EXPECT_TRUE(weights("whole") == weights("cut"));
  succeed({"train", "run.toml", "--data.val_fraction=0.25", "--run.steps=6", "--run.out=plain",
           "--optim.schedule.kind=constant"});
  EXPECT_FALSE(weights("whole") == weights("plain")) << "the control";
  for (const char* compute : {"fp32", "bf16"}) {
    const Program::Result verified =
        accrue({"verify", "run.toml", augment, std::string("--precision.compute=") + compute});
    EXPECT_EQ(verified.status, 0) << compute << ": " << verified.output << verified.errors;
  }
}

TEST_F(ImageRun, DataTellsNumberShapeClassesAndWhatIsDone) {
  write_images();
  const Words data{"data", "run.toml", "--data.augment={flip = 0.5}"};
  EXPECT_THAT(succeed(data).output,
              AllOf(HasSubstr("24 images in colour of 8 x 8, 2 classes: dark, light"),
                    HasSubstr("flipped (0.5 of them)"), HasSubstr("3 an epoch, of 8 images")));
  Words with_json = data;
  with_json.emplace_back("--json");
  const json told = json::parse(succeed(with_json).output);
  EXPECT_EQ(told["train"]["image"], json({3, 8, 8}));
  EXPECT_EQ(told["train"]["classes"], json({"dark", "light"}));
  EXPECT_EQ(told["window"], json({{"samples", 8}, {"micro_batch", 4}, {"windows_per_epoch", 3}}));
}

TEST_F(ImageRun, IsExportedWithTheNamesOfItsClasses) {
  write_images();
  succeed({"train", "run.toml", "--run.steps=1"});
  succeed({"export", "out", "--out", "model"});
  const json config = json::parse(content("model/config.json"));
  EXPECT_EQ(config["architecture"], "cifar_resnet8");
  EXPECT_EQ(config["network"]["stem"], "3x3");
  EXPECT_FALSE(config.contains("model_args")) << "arguments of timm's networks";
  EXPECT_EQ(config["label_names"], json({"dark", "light"}));
  EXPECT_EQ(config["pretrained_cfg"]["input_size"], json({3, 8, 8}));
  EXPECT_THAT(content("model/README.md"),
              AllOf(HasSubstr("2 classes: dark, light."), HasSubstr("images in colour of 8 x 8"),
                    HasSubstr("\npip install numpy pillow safetensors torch\n"),
                    Not(HasSubstr("token id")), Not(HasSubstr("Tokenizer"))));
  EXPECT_THAT(refused({"export", "out", "--out", "model"}), HasSubstr("README.md"));
  std::filesystem::remove(folder_ / "model/README.md");
  EXPECT_THAT(refused({"export", "out", "--out", "model"}), HasSubstr("a new or empty folder"));
  succeed({"train", "run.toml", "--run.out=second", "--run.steps=1", "--model.from=model"});
  succeed({"train", "run.toml", "--run.out=third", "--run.steps=1",
           "--model.from=model/model.safetensors"});
  const std::string weights = "checkpoints/step-00000001/model.safetensors";
  EXPECT_TRUE(content("second/" + weights) == content("third/" + weights));
  succeed({"train", "run.toml", "--run.out=fresh", "--run.steps=1"});
  EXPECT_FALSE(content("second/" + weights) == content("fresh/" + weights)) << "the control";
}

TEST_F(ImageRun, OfAVitIsExportedForTransformers) {
  write_images();
  std::string config = content("run.toml");
  const std::string norm = "batchnorm = \"exact\"\n";
  write("run.toml", config.erase(config.find(norm), norm.size()));
  succeed({"train", "run.toml", "--run.steps=1", "--model.kind=vit", "--model.layers=1",
           "--model.heads=2", "--model.width=16", "--model.context=4"});
  succeed({"export", "out", "--out", "model"});
  EXPECT_EQ(json::parse(content("model/config.json"))["id2label"]["1"], "light");
  EXPECT_EQ(json::parse(content("model/preprocessor_config.json"))["crop_size"]["height"], 8);
  EXPECT_THAT(content("model/README.md"),
              AllOf(HasSubstr("ViTForImageClassification"),
                    HasSubstr("\npip install numpy pillow torch transformers\n")));
}

/// The card's text about tokens depends on the kind of data.
TEST_F(AccrueProgram, CardsSayWhatTheTokensWere) {
  write_small_run();
  const auto card_of = [&](const Words& overrides) {
    Words words{"train", "run.toml", "--run.steps=1", "--data.val_fraction=0"};
    words.insert(words.end(), overrides.begin(), overrides.end());
    std::filesystem::remove_all(folder_ / "out");
    std::filesystem::remove_all(folder_ / "model");
    EXPECT_EQ(accrue(words).status, 0);
    EXPECT_EQ(accrue({"export", "out", "--out", "model"}).status, 0);
    std::ifstream card(folder_ / "model/README.md");
    return std::string(std::istreambuf_iterator<char>(card), {});
  };
  write("ids.jsonl", "{\"input_ids\": [1, 2, 3], \"labels\": [1, 2, 3]}\n");
  write("ids.bin", std::string(200, '\1'));
  const std::string packages = "\npip install torch transformers\n";
  EXPECT_THAT(card_of({}), AllOf(HasSubstr("Tokens are bytes"), HasSubstr(packages)));
  EXPECT_THAT(card_of({"--data.train=ids.bin", "--model.vocab=300"}),
              AllOf(HasSubstr("trained on files of token ids"), HasSubstr(packages)));
  EXPECT_THAT(card_of({"--data.train=ids.jsonl", "--model.vocab=300", "--batch.tokens=16"}),
              AllOf(HasSubstr("trained on JSON lines"), Not(HasSubstr("files of token ids"))));
}

}  // namespace
}  // namespace accrue::testing
