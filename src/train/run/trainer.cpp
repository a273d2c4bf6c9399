#include "accrue/train/trainer.h"

#include <algorithm>
#include <memory>
#include <sstream>

#include "accrue/core/error.h"
#include "accrue/memory/shard_scope.h"
#include "accrue/models/normalisation.h"
#include "core/atomic_file.h"
#include "core/notice_signal.h"
#include "data/tokenizer/folder/tokenizer_files.h"
#include "memory/out_of_memory.h"
#include "memory/plan.h"
#include "train/checkpoint/module_digest.h"
#include "train/checkpoint/resume.h"
#include "train/checkpoint/run_copies.h"
#include "train/checkpoint/run_record.h"
#include "train/config/data_paths.h"
#include "train/config/gradient_folding.h"
#include "train/plan/make_run_plan.h"
#include "train/plan/memory_advice.h"
#include "train/plan/offload_choice.h"
#include "train/plan/setup.h"
#include "train/ranks/ranks.h"
#include "train/run/kept_windows.h"
#include "train/run/noise_record.h"
#include "train/run/rank_changes.h"
#include "train/run/recorded_config.h"
#include "train/run/run_folders.h"
#include "train/run/run_notes.h"
#include "train/run/run_observers.h"
#include "train/run/run_planner.h"
#include "train/run/sinks.h"
#include "train/run/start_events.h"
#include "train/run/training_loop.h"
#include "train/workload/batch_changes.h"
#include "train/workload/generation_origin.h"
#include "train/workload/model_digest.h"
#include "train/workload/pair_reference.h"
#include "train/workload/placement.h"
#include "train/workload/run_length.h"
#include "train/workload/standard_input.h"
#include "train/workload/workload.h"

namespace accrue::train {

struct Trainer::Impl {
  Impl(Config as_given, std::shared_ptr<distributed::Group> group, ShowProgress shown_to)
      : given(with_settings_to_open(
            with_whole_batch(std::move(as_given), group ? group->world() : 1))),
        ranks(std::move(group)),
        show(std::move(shown_to)),
        shard_scope(make_shard_scope(ranks, given)),
        work(open(given, ranks.world(), show)),
        copies(RunDirectory(given.run.out), given.run.replica),
        directory(copies.own()) {
    // The record keeps "auto", which a resumption decides again, and the order, which stays.
    if (given.memory.offload_is_auto()) given.memory.accumulation = work.config.memory.accumulation;
    models::check_batch_norms(*work.model, work.config.model.batchnorm);
    if (work.config.run.graphs) check_recorded_pass(*work.model, device_of(*work.model));
    work.slice = ranks.slice(given);
    work.ranks = ranks_that_share(given, ranks.world());
  }

  /// Null if this rank has all parameters. One that joins a group learns its slice later.
  static std::unique_ptr<memory::ShardScope> make_shard_scope(const Ranks& ranks,
                                                              const Config& config) {
    if (!ranks.divide_model(config)) return nullptr;
    return std::make_unique<memory::ShardScope>(ranks.are_joined_late() ? RankSlice{}
                                                                        : ranks.slice(config));
  }

  /// The schedule's version decides which rates are refused; a continued run has it in its state
  /// (take_up_schedule). Until then this is the version that refuses least. If
  /// memory.offload = "auto" decides the order of a window, it is that of the run.
  static Config with_settings_to_open(Config config) {
    if (config.run.out.empty()) return config;
    const RunCopies copies(RunDirectory(config.run.out), config.run.replica);
    if (!copies.hold_run()) return config;
    config.optim.schedule.version = optim::ScheduleVersion::min_in_last_step;
    if (!config.memory.offload_is_auto()) return config;
    return with_order_of_run(std::move(config), copies.record().config());
  }

  /// A run that continues keeps the schedule version of its saved state, on which its batch may
  /// depend as well.
  void take_up_schedule(optim::ScheduleVersion version) {
    if (given.optim.schedule.version == version && work.config.optim.schedule.version == version)
      return;
    given.optim.schedule.version = version;
    work.config.optim.schedule.version = version;
    if (batch_changes(work.config))
      work.schedule = make_window_schedule(work.config, work.data.train);
    check_rates(work.config);
  }

  /// Decides it before anything depends on it. Which checkpoint is intact is only known later:
  /// continue_run() uses the one that it loaded.
  void settle_schedule(const RunOptions& options) {
    if (!options.resume || !copies.hold_run()) return;
    const bool has_state = !options.checkpoint.empty() || copies.newest_whole();
    const auto state = has_state ? state_to_resume(copies, options.checkpoint) : std::nullopt;
    take_up_schedule(state ? state->schedule : recorded_schedule(copies.record()));
  }

  static Workload open(const Config& config, std::int64_t world, const ShowProgress& shown_to) {
    if (config.run.out.empty())
      throw usage_error("run.out", "a folder for the run", "nothing",
                        "out = \"runs/first\" in [run]");
    use_resources(config);
    return open_within_memory(with_standard_input(config, world), world, shown_to);
  }

  /// Whether there is no checkpoint whose plan can be used. Trials create an optimizer state of
  /// their own, so they are run before there is another.
  bool needs_plan(const RunOptions& options) const {
    return !options.resume || (options.checkpoint.empty() && !copies.newest_whole());
  }

  /// The facts that ranks have to agree on before any of them decides a plan or loads anything.
  distributed::Facts start_of(const RunOptions& options, bool plans) const {
    const std::string checkpoint =
        options.checkpoint.empty() ? "the newest checkpoint" : options.checkpoint;
    return {{"resume", options.resume ? checkpoint : "no"},
            {"repeat", options.repeats ? "yes" : "no"},
            {"accept-data", options.accept_data ? "yes" : "no"},
            {"batch", batch ? std::to_string(*batch) : "as the run has it"},
            {"plan", plans ? "a new one" : "the checkpoint's"}};
  }

  RunNotes notes(const RunOptions& options) {
    if (!environment) environment = present_environment(ranks.world());
    return {given, work, options.command, *environment};
  }

  /// Compares the run with the one that it repeats, before anything is planned or written.
  void settle_repetition(const RunOptions& options) {
    if (!options.repeats) return;
    if (options.resume)
      throw usage_error("train", "a run that is resumed, or one that repeats another", "both",
                        "RunOptions with one of them");
    repeated = repeat(options.repeats, notes(options), options.accept_data);
  }

  /// If ranks share a cache of text, the first one there repairs it, and has the remark on that.
  void hear_remarks_of_others() {
    const std::vector<std::string> own = data_remarks(work.data);
    std::string lines;
    for (const std::string& remark : own) lines += remark + "\n";
    const std::vector<std::string> of_ranks = ranks.gather_texts("remarks on the data", lines);
    for (std::size_t rank = 1; rank < of_ranks.size(); ++rank) {
      std::istringstream remarks(of_ranks[rank]);
      for (std::string remark; std::getline(remarks, remark);)
        if (std::ranges::find(own, remark) == own.end())
          remarks_of_others.push_back("rank " + std::to_string(rank) + ": " + remark);
    }
  }

  std::vector<Event> events_of_others(std::int64_t step) const {
    std::vector<Event> events;
    for (const std::string& remark : remarks_of_others)
      events.push_back({.name = "data", .reason = remark, .step = step});
    return events;
  }

  void announce_all(const std::vector<Event>& events) const {
    if (ranks.is_first()) observers.tell(events);
  }

  TrainState start_new(const optim::Optimizer& optimizer, const RunOptions& options,
                       RunClaim* claim) {
    require_measurable_noise(work);
    if (claim != nullptr) create_directory(optimizer, options, *claim);
    return first_state();
  }

  void create_directory(const optim::Optimizer& optimizer, const RunOptions& options,
                        RunClaim& claim) {
    std::int64_t model_bytes = 0;
    for (const NamedParameter& p : work.model->file_tensors())
      model_bytes += static_cast<std::int64_t>(p.tensor.nbytes());
    check_room(checkpoint_room(given.run, planner.plan()->total_steps, model_bytes,
                               whole_state_bytes(optimizer)),
               free_bytes_at(directory.root()), directory.root().string());
    const auto text = work.data.train->tokenizer();
    KeptTokenizer tokenizer =
        text ? KeptTokenizer(data::files_read_with_tokenizer(text->file())) : KeptTokenizer();
    tokenizer.keep(kGenerationOfModel, generation_of_origin(work.config.model));
    claim.create(
        with_outer_rates(given),
        note_start(notes(options), *planner.plan(), planner.records(), repeated, tokenizer),
        tokenizer);
  }

  TrainState first_state() {
    const RunPlan& plan = planner.decide();
    const std::int64_t micro = plan.micro_batch;
    return {.schedule = given.optim.schedule.version,
            .micro_batches = {.planned = micro, .micro_batch = micro},
            .recompute = plan.recompute,
            .accelerate = plan.accelerate,
            .ranks = planner.records(),
            .data = data,
            .adapt = {.changes = repeated ? repeated->repetition.batch_changes
                                          : std::vector<BatchChange>{}}};
  }

  /// Checks the data before anything is planned or written. A run that is resumed checked them when
  /// it began.
  void check_data(bool resume) {
    data = data_identity(work);
    if (const auto newest = resume ? copies.newest_whole() : std::nullopt) {
      const DataIdentity before = read_checkpoint_state(*newest).data;
      data.checked = before.checked && before.fingerprint == data.fingerprint;
    }
    if (data.checked) return;
    during(show, "checking the data", [&] {
      work.data.train->check_contents();
      if (work.data.val) work.data.val->check_contents();
    });
    data.checked = true;
  }

  /// Whether the batch is another one from the next step on shows when the state is loaded. Until
  /// then, and in what the run directory keeps, the batch is the one that the run began with:
  /// changes by hand are decisions, which the state has.
  void settle_batch(const RunOptions& options) {
    if (!options.resume || !copies.hold_run()) return;
    const Config started = copies.record().config();
    batch_changes_by_hand = recorded_changes_by_hand();
    const auto stated = batch_in_unit_of(started, given, sample_facts(*work.data.train));
    const std::int64_t begun = stated_batch(started);
    const bool is_current = stated != begun && stated == batch_after(batch_changes_by_hand, begun);
    if (!stated || !(options.may_change_batch || is_current)) return;
    batch = stated;
    given = with_batch_of(std::move(given), started);
    work.config = with_batch_of(std::move(work.config), started);
    work.schedule = make_window_schedule(work.config, work.data.train);
  }

  /// A damaged run.json is replaced by the replica's once the run is claimed.
  std::vector<BatchChange> recorded_changes_by_hand() const {
    try {
      return recorded_batch_changes(copies.record());
    } catch (const Error&) {
      if (!copies.replica()) throw;
      return recorded_batch_changes(*copies.replica());
    }
  }

  void take_up_batch_changes(TrainState& state) const {
    if (batch_changes(work.config)) return;
    state.adapt.changes =
        changes_to_go_on_with(std::move(state.adapt.changes), batch_changes_by_hand, state.window);
  }

  /// Changes the batch of `state` to the one that is stated, from the next window on. Returns the
  /// change, if that is another one.
  std::optional<ConfigDifference> change_batch(TrainState& state) const {
    if (!batch) return std::nullopt;
    std::vector<BatchChange>& changes = state.adapt.changes;
    const std::int64_t begun = stated_batch(work.config);
    const std::int64_t before = batch_after(changes, begun);
    if (*batch == before) return std::nullopt;
    // A window that has begun is finished with the batch that it began with.
    const std::int64_t next = state.window + (state.middle ? 1 : 0);
    changes = changed_by_hand(std::move(changes), {.window = next, .size = *batch}, begun);
    return ConfigDifference{.key = key_of_batch(work.config),
                            .before = std::to_string(before),
                            .after = std::to_string(*batch)};
  }

  /// Decides the length before anything depends on it. All ranks decide alike, from the same files.
  /// Whether there is a run to resume is known when ranks have agreed on what they begin.
  void settle_length(const RunOptions& options) {
    if (!options.resume || !copies.hold_run()) return;
    length = decide_length(copies.record().config(), given, work.schedule, options.may_shorten);
    given = length->config;
    expect_batch_to_take(*length, work.config);
    work.config = with_length_of(std::move(work.config), given);
    if (batch_changes(work.config))
      work.schedule = make_window_schedule(work.config, work.data.train);
  }

  TrainState continue_run(optim::Optimizer& optimizer, const RunOptions& options) {
    const Config started = settle_config(directory.config(), given, work.config);
    Resumed found = during(show, "loading the checkpoint", [&] {
      return load_checkpoint(copies, options.checkpoint, data, options.accept_data, *work.model,
                             optimizer);
    });
    if (found.data_change.empty()) found.data_move = moves_in_words(started, given);
    if (found.checkpoint.empty()) {
      expect_data_of_start(directory, notes(options), started, options.accept_data);
      found.state = first_state();
      take_up_batch_changes(found.state);
    } else {
      take_up_schedule(found.state.schedule);
      take_up_batch_changes(found.state);
      planner.take_up(found.state);
    }
    settle_started_window(found, work, ranks.world());
    found.batch_change = change_batch(found.state);
    ranks.check_resumable(found.state.inner_optimizers);
    if (ranks.is_first()) look_at_module(found);
    resumed = std::move(found);
    if (ranks.is_first()) write_resumption(options, started);
    return resumed->state;
  }

  /// The user stated the module in the config, so it is loaded; a change is
  /// reported.
  void look_at_module(Resumed& found) const {
    found.module = digest_of_module(*work.model);
    const std::string before = recorded_module(directory);
    if (before.empty() || before == found.module) return;
    found.module_change = given.model.from +
                          " is another TorchScript module than the run had: " + found.module +
                          " in place of " + before;
  }

  /// Writes the length first: a process that is killed in between leaves a run of either length.
  void write_resumption(const RunOptions& options, const Config& started) {
    Config kept = with_data_paths_of(started, given);
    if (length && length->changes) kept = with_length_of(std::move(kept), given);
    if (!differences(started, kept).empty())
      write_file_atomically(directory.config_file(), to_toml(kept));
    note_resumption(directory, notes(options), *resumed, started);
  }

  RunResult train(const RunOptions& options, ResourceWatches& watches,
                  const StopSignalWatch& signals, const NoticeWatch& notice, RunFolders& folders) {
    std::optional<RunOptimizer> optimizer;
    const auto tell = [&](const Event& event) {
      observers.report_or_keep(event, observed(given, options.quiet).progress);
    };
    std::optional<StepReport> unreported;
    const ChangingRun changing{ranks,   work,     optimizer, data,       copies,
                               folders, run_name, signals,   unreported, tell};
    std::optional<StartedWindow> part;
    TrainState state;
    if (ranks.are_joined_late()) {
      ChangedRanks changed = join_run(changing);
      state = std::move(changed.state);
      part = std::move(changed.part);
      take_up_schedule(state.schedule);
      planner.take_up(state, "as the ranks that were there have it");
    } else {
      optimizer.emplace(ranks, work);
      state = options.resume ? continue_run(optimizer->whole(), options)
                             : start_new(optimizer->whole(), options, folders.claim.get());
      ranks.check_state(work, optimizer->whole(), state.step);
      optimizer->bring_replica_up_to_date();
      if (resumed && ranks.are_many())
        part = part_of_started_window(changing, state, resumed->window);
    }
    ranks.settle();
    if (ranks.is_first()) start_reporting(options, folders, state.step);
    if (resumed) resumed->metrics.reset();  // a rank that takes over continues from another log
    const auto make_loop = [&](TrainState from, const StoredTensors& of_ranks,
                               StoredTensors of_window) {
      return std::make_unique<TrainingLoop>(
          RunContext{work, *planner.plan(), optimizer->whole(), optimizer->sharded(), directory,
                     observers.of_steps(), gradient_hook, watches, ranks, signals, notice,
                     folders.claim.get(), folders.replica.get(),
                     ranks.is_first() && given.observe.jsonl ? &metrics : nullptr},
          std::move(from), of_ranks, std::move(of_window));
    };
    const std::int64_t first_step = state.step;
    auto loop = make_loop(std::move(state), resumed ? resumed->ranks : StoredTensors{},
                          resumed ? std::exchange(resumed->window, {}) : StoredTensors{});
    announce_all(start_events(
        {work, *planner.plan(), planner.records(), length, resumed, repeated, ranks.world()}));
    announce_all(events_of_others(first_step));
    if (ranks.is_first()) announce_all(folder_events(folders, copies, resumed));
    loop->report_start();
    if (part) loop->go_on_in(*std::move(part));
    std::optional<RunResult> ended = loop->run();
    while (!ended) {
      TrainState left = loop->state();
      const std::int64_t steps = left.step;
      std::optional<StartedWindow> done = std::move(loop->done_of_window());
      const std::string why = loop->why_ranks_change();
      const Stopwatch since_checkpoint = loop->since_checkpoint();
      if (loop->unreported_step()) unreported = loop->unreported_step();
      loop.reset();
      ChangedRanks changed = go_on_with_other_ranks(changing, std::move(left), done, why);
      planner.take_up(changed.state, "as before the ranks changed");
      const bool takes_over = ranks.is_first() && folders.claim == nullptr;
      if (takes_over) {
        folders = claim_folders(copies, true, {run_name, ranks.generation()});
        start_reporting(options, folders, changed.state.step);
      } else if (changed.state.step < steps) {
        observers.roll_back(changed.state.step);
      }
      if (ranks.is_first())
        observers.report_if_missing(changed.last_step, directory.metrics_file());
      announce_all({changed.event});
      loop = make_loop(std::move(changed.state), {}, {});
      if (takes_over) loop->report_start();
      loop->count_from(since_checkpoint);
      if (changed.part) loop->go_on_in(*std::move(changed.part));
      ended = loop->run();
    }
    if (ranks.is_first())
      if (std::string reason = note_end(directory, *ended); !reason.empty())
        announce_all({{.name = "run_directory", .reason = reason, .step = ended->step}});
    ranks.finish();
    // The other ranks do not wait for a copy, which may take longer than dist.timeout.
    if (folders.replica)
      finish_copies(*folders.replica, ended->step, [&](const std::string& reason) {
        announce_all({{.name = "replica", .reason = reason, .step = ended->step}});
      });
    return *ended;
  }

  /// Makes this rank the one that reports the run, with sinks that write into its directory.
  void start_reporting(const RunOptions& options, const RunFolders& folders, std::int64_t step) {
    metrics.expect(resumed ? resumed->metrics : std::nullopt);
    observers.start_reporting(make_sinks({given, observed(given, options.quiet), *planner.plan(),
                                          directory, *folders.claim, step, metrics}));
  }

  /// The state from which a resumption continues; none if there is no checkpoint yet.
  std::optional<TrainState> look_up_checkpoint(const RunOptions& options) {
    settle_config(copies.record().config(), given, work.config);
    std::optional<TrainState> state = state_to_resume(copies, options.checkpoint);
    if (!state) return std::nullopt;
    check_continuity(state->data, data, options.accept_data);
    ranks.check_resumable(state->inner_optimizers);
    take_up_batch_changes(*state);
    change_batch(*state);
    planner.take_up(*state);
    return state;
  }

  void expect_in_time(const char* operation) const {
    if (ranks.are_joined_late())
      throw usage_error(operation, "ranks that have not begun a run", "one that is under way",
                        "train, to join it, or without the launcher's variables");
  }

  Preview preview(const RunOptions& options) {
    expect_in_time("plan a run (--dry-run)");
    if (ranks.is_first()) check_folders(copies, options.resume);
    settle_batch(options);
    settle_length(options);
    settle_schedule(options);
    data = data_identity(work);
    settle_repetition(options);
    ranks.begin(work, data.fingerprint, start_of(options, needs_plan(options)));
    const auto state = options.resume ? look_up_checkpoint(options) : std::nullopt;
    const std::int64_t step = state ? state->step : 0;
    Preview found{.plan = planner.decide(), .resumes = options.resume, .step = step};
    if (repeated) found.repetition = in_words(*repeated);
    found.length = length_change_in_words(work.config, found.plan, length, step);
    if (state) found.batch = changes_by_hand_in_words(work.config, state->adapt.changes);
    if (state && state->window >= windows_of_run(work, state->adapt.changes))
      found.done = done_in_words(state->step, given.run);
    return found;
  }

  RunResult begin(const RunOptions& options) {
    if (ranks.is_first()) check_folders(copies, options.resume);
    settle_batch(options);
    settle_length(options);
    settle_schedule(options);
    check_data(options.resume);
    settle_repetition(options);
    if (gradient_hook && folds_gradients(work.config))
      throw usage_error("gradient hook", "a gradient buffer for it to see",
                        "gradients that are folded into the optimizer",
                        "memory.gradients = \"buffer\" and an optimizer that goes with it");
    if (gradient_hook && work.slice != RankSlice{})
      throw usage_error("gradient hook", "a gradient that each rank has all of",
                        "one that is divided among the ranks", "dist.shard = \"none\"");
    const bool plans = needs_plan(options) && !ranks.are_joined_late();
    if (!ranks.are_joined_late()) ranks.begin(work, data.fingerprint, start_of(options, plans));
    take_reference(work, show);
    if (ranks.are_many() && !ranks.are_joined_late()) hear_remarks_of_others();
    ResourceWatches watches(given);
    // A budget file counts from the start: the plan is made for its value.
    if (const auto reason = memory::follow_budget_file(watches.budget))
      announce_all({{.name = "budget", .reason = *reason}});
    if (plans) planner.decide();
    return train_or_abandon(options, watches);
  }

  RunResult train_or_abandon(const RunOptions& options, ResourceWatches& watches) {
    const StopSignalWatch signals;  // watches before a signal could leave anything half-made
    const auto own_notice = options.notice == nullptr ? std::make_unique<NoticeWatch>() : nullptr;
    const NoticeWatch& notice = own_notice ? *own_notice : *options.notice;
    RunFolders folders =
        ranks.is_first() ? claim_folders(copies, options.resume, {}) : RunFolders{};
    // The others continue when they can read the run directory.
    if (!ranks.are_joined_late())
      run_name = ranks.broadcast_first("the name of the run",
                                       folders.claim ? folders.claim->tenure().run : "");
    // A mistake that appears only in the first step must not block the corrected run.
    const auto abandon = [&] {
      if (!options.resume && folders.claim) folders.claim->abandon();
    };
    try {
      return train(options, watches, signals, notice, folders);
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::runtime) abandon();
      throw;
    } catch (const std::exception& error) {
      if (!memory::is_out_of_memory(error)) throw;
      abandon();
      throw no_memory_for("train", error, memory_advice(work, planner.plan().value_or(RunPlan{})));
    }
  }

  /// The result of `action`; other ranks are informed if it fails.
  template <class Action>
  auto telling_ranks(Action action) {
    try {
      return action();
    } catch (const std::exception& error) {
      ranks.fail(error.what());
      throw;
    }
  }

  Config given;  ///< the config that the run directory keeps and a resumption compares
  Ranks ranks;
  ShowProgress show;
  std::unique_ptr<memory::ShardScope> shard_scope;  ///< null: each rank has all parameters
  Workload work;
  RunCopies copies;
  RunDirectory directory;                ///< copies.own()
  DataIdentity data;                     ///< set once the data are checked
  std::optional<LengthDecision> length;  ///< set for a run that is resumed
  /// What a resumption states about its batch, in the run's unit; none if it goes on as it was.
  std::optional<std::int64_t> batch;
  std::vector<BatchChange> batch_changes_by_hand;  ///< of a run that is resumed, before that
  std::optional<Resumed> resumed;
  std::optional<OriginalRun> repeated;
  RunPlanner planner{given, ranks, work, repeated, show};
  std::optional<RunEnvironment> environment;   ///< set if it is noted or compared
  std::vector<std::string> remarks_of_others;  ///< of other ranks, on the data
  observe::MetricsAccount metrics;
  RunObservers observers;
  std::string run_name;  ///< RunTenure::run
  GradientHook gradient_hook;
};

Trainer::Trainer(Config config, const std::shared_ptr<distributed::Group>& group,
                 const ShowProgress& show) {
  try {
    impl_ = std::make_unique<Impl>(std::move(config), group, show);
  } catch (const std::exception& error) {
    if (group) group->fail(error.what());
    throw;
  }
}
Trainer::~Trainer() = default;

void Trainer::set_gradient_hook(GradientHook hook) { impl_->gradient_hook = std::move(hook); }

void Trainer::add_observer(std::shared_ptr<Observer> observer) {
  impl_->observers.add(std::move(observer));
}

const RunPlan& Trainer::plan() {
  return *impl_->telling_ranks([&] {
    impl_->expect_in_time("plan a run");
    return &impl_->planner.decide();
  });
}

Preview Trainer::preview(const RunOptions& options) {
  return impl_->telling_ranks([&] { return impl_->preview(settled(options, impl_->copies)); });
}

RunResult Trainer::run(const RunOptions& options) {
  return impl_->telling_ranks([&] { return impl_->begin(settled(options, impl_->copies)); });
}

}  // namespace accrue::train
