# frozen_string_literal: true

# Runs the jobs of one Rails application for a Fairway worker: `ruby runner.rb ROOT`.
#
# The environment is booted once; then jobs come over the warm protocol (docs/reference/warm.md of Fairway),
# one at a time. The main thread runs them, a second one listens, so that a job can be asked to end.
#
# What may be run, and is announced after everything was loaded:
#   - every ActiveJob class:                    {"adapter": "rails", "job": "MailJob", "args": [1]}
#   - a class that includes Fairway::Runnable:  the same; `new.perform(...)` is called
#   - class methods that a constant lists:      {"adapter": "rails", "call": "Mail::Box.sweep"}
#     by `def self.fairway_perform = [:sweep]`

require "date"
require "json"

module Fairway
  # Opts a class in: `new.perform(*args, **kwargs)` is its job.
  module Runnable; end

  # Raise it: no new attempt would help.
  class PermanentFailure < StandardError; end

  # Raise it: a new attempt, in so many seconds.
  class RetryAfter < StandardError
    attr_reader :seconds, :error

    def initialize(seconds, message = "try again in #{seconds} s", error: nil)
      super(message)
      @seconds = seconds
      @error = error
    end
  end

  # What a job returned does not fit into a result.
  class ResultTooLarge < PermanentFailure; end

  # Raised in a job that must end; not a StandardError, so that `rescue => e` lets it through.
  class Stopped < Exception; end # rubocop:disable Lint/InheritException

  # The attempt that runs: `Fairway.current`, nil outside of one.
  class Current
    attr_reader :job_id, :attempt, :task, :queue, :generation, :checkpoint, :tries
    attr_accessor :active_job, :given_up

    def initialize(order, wire)
      @job_id, @attempt, @task = order.values_at("job", "attempt", "task")
      @queue, @generation, @checkpoint = order.values_at("queue", "generation", "checkpoint")
      @tries = order.fetch("tries", 0)
      @wire = wire
    end

    def key = [job_id, attempt]

    # Whether the attempt was asked to end; an exception follows.
    def cancelled? = !@reason.nil?

    attr_accessor :reason

    # How far the work is, from 0 to 1.
    def progress(fraction, text = "") = say("progress", fraction: fraction.to_f, text: text.to_s)

    # Where a next attempt may go on: its `checkpoint`.
    def save(value) = say("checkpoint", value: Plain.of(value))

    def log(text) = say("log", text: text.to_s)

    def say(kind, **more) = @wire.write(kind => { job: job_id, attempt: attempt, **more })
  end

  class << self
    attr_accessor :current
  end

  # Values as JSON has them. Most jobs return by accident whatever their last line made: that is dropped.
  module Plain
    def self.of(value)
      case value
      when nil, true, false, Integer then value
      when Float then value.finite? ? value : nil
      when String then text(value)
      when Symbol, Time, Date then text(value.respond_to?(:iso8601) ? value.iso8601 : value.to_s)
      when Array then value.map { |item| of(item) }
      when Hash then value.to_h { |key, item| [text(key.to_s), of(item)] }
      end
    end

    def self.text(string) = string.encode("UTF-8", invalid: :replace, undef: :replace).scrub
  end

  # The two pipes to the worker.
  class Wire
    def initialize
      @reader = IO.for_fd(Integer(ENV.fetch("FAIRWAY_READ_FD")), "r:UTF-8")
      @writer = IO.for_fd(Integer(ENV.fetch("FAIRWAY_WRITE_FD")), "w")
      @writer.sync = true
      @writing = Mutex.new
    end

    def each
      @reader.each_line { |line| yield JSON.parse(line) }
    end

    def write(message)
      line = JSON.generate(message) << "\n"
      @writing.synchronize { @writer.write(line) }
    end
  end

  # Which constants may be run, and how.
  class Registry
    def initialize
      @jobs = defined?(ActiveJob::Base) ? ActiveJob::Base.descendants : []
      @runnable = ObjectSpace.each_object(Class).select { |it| it < Runnable && it.method_defined?(:perform) }
      @listing = ObjectSpace.each_object(Module).select { |it| lists_something?(it) }
    end

    def tasks
      found = (@jobs + @runnable).select(&:name).map { |job| [job.name, job.instance_method(:perform)] }
      @listing.select(&:name).each do |constant|
        constant.fairway_perform.each { |name| found << ["#{constant.name}.#{name}", constant.method(name)] }
      end
      found.uniq(&:first).map { |name, method| { name: name, signature: signature(method) } }
    end

    # Return what calls the task; its constant is looked up each time, for Rails may have reloaded it.
    def find(task)
      name, method = task.split(".", 2)
      constant = name.safe_constantize
      return constant.method(method) if method && lists?(constant, method)
      raise PermanentFailure, "#{task} does not opt in: list it in #{name}.fairway_perform" if method
      return active_job(constant) if defined?(ActiveJob::Base) && constant.is_a?(Class) && constant <= ActiveJob::Base
      return constant.new.method(:perform) if constant.is_a?(Class) && constant.include?(Runnable)

      raise PermanentFailure, "#{name} is neither an ActiveJob class nor a Fairway::Runnable of this application"
    end

    private

    # Not respond_to?: some modules of Rails say yes to anything, or raise.
    def lists_something?(constant) = constant.singleton_class.method_defined?(:fairway_perform)

    def lists?(constant, method)
      constant.is_a?(Module) && lists_something?(constant) && constant.fairway_perform.map(&:to_s).include?(method)
    end

    def active_job(constant)
      lambda do |*args, **kwargs|
        named = kwargs.transform_keys(&:to_s)
        args += [named.merge("_aj_ruby2_keywords" => named.keys)] unless named.empty?
        ActiveJobs.perform(constant, args)
      end
    end

    def signature(method)
      forms = { req: "%s", opt: "%s = …", rest: "*%s", keyreq: "%s:", key: "%s: …", keyrest: "**%s" }
      shown = method.parameters.filter_map { |kind, name| format(forms[kind], name) if forms[kind] }
      "(#{shown.join(", ")})"
    end
  end

  # ActiveJob's own rules, told to Fairway: a retry is the same job's next attempt, not a new one elsewhere.
  module ActiveJobs
    # `retry_on` ends here: the wait it chose is Fairway's.
    module Retrying
      def retry_job(options = {})
        current = Fairway.current
        return super unless current && equal?(current.active_job)

        wait = options[:wait_until] ? options[:wait_until].to_f - Time.now.to_f : options[:wait]
        raise RetryAfter.new(wait.to_f, "retry_job", error: options[:error])
      end
    end

    def self.prepare
      return unless defined?(ActiveJob::Base)

      ActiveJob::Base.prepend(Retrying)
      %w[retry_stopped discard].each do |name|
        ActiveSupport::Notifications.subscribe("#{name}.active_job") do |*, payload|
          current = Fairway.current
          current.given_up = payload[:error] if current && payload[:job].equal?(current.active_job)
        end
      end
    end

    def self.perform(constant, arguments)
      current = Fairway.current
      current.active_job = make(constant, arguments, current)
      value = current.active_job.perform_now
      raise PermanentFailure, "discarded" if current.given_up

      value
    end

    # Without executions per exception ActiveJob counts all of them. What was handed back was no execution.
    def self.make(constant, arguments, current)
      constant.new.tap do |job|
        job.deserialize(
          "job_id" => current.job_id, "queue_name" => current.queue, "arguments" => arguments,
          "executions" => current.tries, "exception_executions" => nil, "priority" => nil,
          "locale" => I18n.locale.to_s, "timezone" => Time.zone&.name, "enqueued_at" => nil
        )
      end
    end
  end

  # Takes orders and answers them.
  class Runner
    MOST_VALUE_BYTES = 1024 * 1024

    def initialize(wire)
      @wire = wire
      @orders = Queue.new
    end

    def serve
      @registry = Registry.new
      ActiveJobs.prepare
      Signal.trap("TERM") { terminate }
      Thread.new { listen }
      @wire.write("ready" => { protocol: 1, tasks: @registry.tasks, concurrency: 1, version: version })
      Thread.handle_interrupt(Stopped => :never) do
        while (order, current = @orders.pop) && order
          @wire.write("result" => run(order, current))
        end
      end
    end

    private

    # A cancel may come before the main thread has begun the job it is meant for.
    def listen
      current = nil
      @wire.each do |message|
        if (order = message["run"])
          current = Current.new(order, @wire)
          @orders << [order, current]
        elsif (cancel = message["cancel"])
          current.reason = cancel["reason"] if current && current.key == cancel.values_at("job", "attempt")
        elsif message["exit"]
          break
        end
      end
      @orders << nil
    end

    # SIGTERM: an exception in a job that did not end when it was asked; else the end.
    def terminate
      reason = Fairway.current&.reason
      reason ? Thread.main.raise(Stopped, "the attempt is to end: #{reason}") : exit!(143)
    end

    def run(order, current)
      Fairway.current = current
      name = { job: current.job_id, attempt: current.attempt }
      { **name, ok: true, value: bounded(Plain.of(call(order))) }
    rescue Exception => e # rubocop:disable Lint/RescueException
      { **name, ok: false, error: describe(current.given_up || e, current) }
    ensure
      Fairway.current = nil
      forget_late_stop
      $stdout.flush
      $stderr.flush
    end

    def call(order)
      kwargs = order["kwargs"].transform_keys(&:to_sym)
      Thread.handle_interrupt(Stopped => :immediate) do
        # Reloads changed code where the application does so, and returns database connections afterwards.
        Rails.application.reloader.wrap { @registry.find(order["task"]).call(*order["args"], **kwargs) }
      end
    end

    def bounded(value)
      bytes = JSON.generate([value]).bytesize
      raise ResultTooLarge, "the value has #{bytes} bytes; the most is #{MOST_VALUE_BYTES}" if bytes > MOST_VALUE_BYTES

      value
    end

    def describe(error, current)
      wait = error.is_a?(RetryAfter) ? error.seconds.to_f : nil
      error = error.error if wait && error.error # what `retry_on` has caught
      {
        type: error.class.name || "Exception", message: Plain.text(error.message.to_s)[0, 10_000],
        traceback: backtrace(error), permanent: !current.given_up.nil? || error.is_a?(PermanentFailure),
        retry_after: wait
      }
    end

    # The outermost lines are ours: nothing the application could do about them.
    def backtrace(error)
      ours, own = (error.backtrace || []).partition { |line| line.start_with?(__FILE__) }
      lines = own.empty? ? ours : own
      cause = error.cause
      lines = lines.first(100)
      lines += ["caused by #{cause.class}: #{cause.message}", *cause.backtrace&.first(20)] if cause
      Plain.text(lines.join("\n"))[0, 20_000]
    end

    # A stop that came too late must not hit the next job.
    def forget_late_stop
      Thread.handle_interrupt(Stopped => :immediate) { Thread.pass } if Thread.pending_interrupt?(Stopped)
    rescue Stopped
      nil
    end

    def version = "rails #{Rails.version}, ruby #{RUBY_VERSION}"
  end
end

if $PROGRAM_NAME == __FILE__
  $stdout.sync = true
  root = File.expand_path(ARGV.fetch(0))
  wire = Fairway::Wire.new
  Dir.chdir(root)
  require File.join(root, "config", "environment")
  Rails.application.eager_load!
  Fairway::Runner.new(wire).serve
end
