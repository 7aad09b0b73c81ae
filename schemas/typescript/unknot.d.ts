// The wire of unknot, version 1. Written by `make schemas` from unknot_schemas: do not edit.
//
// Unknown fields are ignored. A field with `?` may be left out; its default is said where it is not null.

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** What happened, to whom, and what to do now. */
export interface Error {
  code: string;
  message: string;
  detail?: { [key: string]: Json } | null;
}

/** Requests with the same group are one wait: *need* of *n* answers. */
export interface Group {
  id: string;
  n: number;
  need: number;
}

/**
 * What an agent sends: an event, a request or an answer. Without ``unknot`` the whole body is bare
 * data.
 */
export interface Envelope {
  /** Default: 0. */
  unknot?: number;
  id?: string | null;
  session?: string | null;
  data?: Json;
  execution?: string | null;
  strand?: string | null;
  /** Default: false. */
  detached?: boolean;
  group?: Group | null;
  run?: string | null;
  timeout_s?: number | null;
  wait_for_target_s?: number | null;
  metadata?: Json;
  error?: Error | null;
  /** Default: true. */
  done?: boolean;
  traceparent?: string | null;
  tracestate?: string | null;
  response_to?: string | null;
  accept_uncorrelated?: string | null;
}

/** What the gateway hands to an agent; in an Outcome: the answer. ``time`` is for people only. */
export interface Delivered {
  id: string;
  type: string;
  source: string;
  target: string;
  data: Json;
  requires_response: boolean;
  epoch: number;
  unknot: number;
  response_to?: string | null;
  run?: string | null;
  metadata?: Json;
  time?: string | null;
  deadline_in_s?: number | null;
  seq?: number | null;
  for?: string | null;
  /** Default: false. */
  redelivered?: boolean;
  traceparent?: string | null;
  tracestate?: string | null;
}

/** Answer to everything that is not a blocking request. */
export interface Receipt {
  ok: boolean;
  id?: string | null;
  timeout_s?: number | null;
  /** Default: false. */
  duplicate?: boolean;
  error?: Error | null;
}

/** How a request or a wait ended; exactly one for each id. */
export interface Outcome {
  request_id: string;
  outcome: "cancelled" | "deadlock" | "expired" | "failed" | "over_limit" | "refused" | "reply" | "responder_lost" | "unreachable";
  handled: "maybe" | "no" | "yes";
  epoch: number;
  event?: Delivered | null;
  error?: Error | null;
}

/**
 * Slots that serve event types; types None: what no other pool of the session names; slots None: no
 * limit.
 */
export interface Pool {
  slots: number | null;
  types?: string[] | null;
  /** Default: false. */
  main?: boolean;
}

/** A session begins, or goes on after an epoch change (resume). */
export interface Hello {
  session: string;
  /** Default: 1. */
  protocol?: number;
  instance?: string | null;
  pools?: Pool[] | null;
  concurrency?: number | null;
  /** Default: true. */
  main_runs?: boolean;
  channels?: string[] | null;
  /** Default: false. */
  reentrant?: boolean;
  /** Default: false. */
  exclusive?: boolean;
  heartbeat_s?: number | null;
  sdk?: string | null;
  /** Default: false. */
  resume?: boolean;
  open?: string[] | null;
  held?: Held[] | null;
  answered?: string[] | null;
  /** Default: 0. */
  seen?: number;
  connection?: string | null;
}

/** An event in the hands of a session: its handler runs, or it has been deferred. */
export interface Held {
  id: string;
  /** Default: "running". */
  state?: "deferred" | "running";
  type?: string | null;
}

/** Answer to hello and heartbeat's ground: what holds for this session. */
export interface Welcome {
  ok: boolean;
  session: string;
  epoch: number;
  protocol: number;
  heartbeat_s: number;
  session_loss_s: number;
  limits: { [key: string]: number };
}

/**
 * What is open and held and older than one interval; ``seen``: number of the last delivery that
 * arrived.
 */
export interface Heartbeat {
  session: string;
  /** Default: []. */
  open?: string[];
  /** Default: []. */
  held?: Held[];
  /** Default: 0. */
  seen?: number;
  connection?: string | null;
}

/**
 * Answer to a heartbeat. *unknown*: open ids to be sent again; *not_held*: held ids the gateway does
 * not know.
 */
export interface Pulse {
  ok: boolean;
  epoch: number;
  /** Default: []. */
  unknown?: string[];
  /** Default: []. */
  not_held?: string[];
}

/** No new work for this session; it ends when what it holds has ended, or after drain_s (0: now). */
export interface Bye {
  session: string;
  /** Default: 0.0. */
  drain_s?: number;
}

/** The handlers of these events have returned; a main loop has read on. */
export interface Done {
  session: string;
  ids: string[];
}

/** The answers come later from elsewhere; *by*: the execution of this session that will give them. */
export interface Defer {
  session: string;
  ids: string[];
  by?: string | null;
}

/**
 * Of one execution. *alive*: own task ("") and joined strands without an open wait; *awaited*: child
 * tasks that the own task stands waiting for.
 */
export interface Strands {
  /** Default: []. */
  alive?: string[];
  /** Default: []. */
  awaited?: string[];
}

/** Answer to ``confirm``, from the receive loop, at once. Keys of *strands* are execution ids. */
export interface Facts {
  session: string;
  incident: string;
  /** Default: []. */
  open?: string[];
  /** Default: {}. */
  requests?: { [key: string]: "deferred" | "done" | "running" };
  /** Default: {}. */
  strands?: { [key: string]: Strands };
}

/**
 * What is waited for: kind reply (id: a request), event (id: a type pattern), agent, human, tool,
 * artifact, …
 */
export interface WaitCondition {
  kind: string;
  /** Default: "". */
  id?: string;
  /** Default: 1. */
  units?: number;
  generation?: number | null;
  source?: string | null;
}

/** An execution cannot go on until *need* of *on* are true. */
export interface WaitOpen {
  id: string;
  session: string;
  on: WaitCondition[];
  execution?: string | null;
  strand?: string | null;
  /** Default: false. */
  detached?: boolean;
  /** Default: 0. */
  generation?: number;
  group?: string | null;
  run?: string | null;
  /** Default: "all". */
  need?: "all" | "any" | number;
  timeout_s?: number | null;
  /** Default: "interruptible". */
  cancel_mode?: "at_checkpoint" | "interruptible" | "never";
  reason?: string | null;
}

/** The wait ended on the agent's side; an older generation changes nothing. */
export interface WaitClose {
  id: string;
  session?: string | null;
  generation?: number | null;
}

/** The sender does not want the answer any more. */
export interface RequestCancel {
  id: string;
  session?: string | null;
}

/** One wait that a member is asked about. */
export interface ConfirmWait {
  id: string;
  /** Default: 0. */
  generation?: number;
}

/** Control ``confirm``: are these waits open, and where do these requests stand? */
export interface Confirm {
  incident: string;
  waits: ConfirmWait[];
  requests: string[];
  /** Default: []. */
  executions?: string[];
}

/** Control ``request.abandoned``: nobody waits for this answer any more. */
export interface Abandoned {
  request_id: string;
  reason: string;
}

/** Control ``session.replaced``: another session has taken this one's place. */
export interface Replaced {
  session: string;
  by: string;
}

/** One wait of a deadlock's member. */
export interface MemberWait {
  id: string;
  waiter: string;
  session: string;
  execution: string;
  generation: number;
  kind: string;
  target: string;
  since_s: number;
  strand?: string | null;
  type?: string | null;
  deadline_in_s?: number | null;
  run?: string | null;
}

/** Control and notice ``agent.wait.deadlock_detected``: these waits can never end. */
export interface DeadlockDetected {
  incident: string;
  digest: string;
  network: string;
  cycle: string[];
  waits: MemberWait[];
  request_ids: string[];
  blocked_behind: string[];
  policy: string;
  evidence: "assumed" | "observed" | "reported";
  remedy: string;
  message: string;
  members_total: number;
  waits_total: number;
  blocked_behind_total: number;
  retry_after_s: number;
  victim?: string | null;
}

/** Notice ``agent.pools_differ``: *session* serves *more* types than *other*, or not those of *less*. */
export interface PoolsDiffer {
  network: string;
  agent: string;
  session: string;
  other: string;
  more: string[];
  less: string[];
  message: string;
}

/**
 * Notice ``agent.over_limit``: *shed* messages of *agent* went unread since the last one, *shed_total*
 * in all.
 */
export interface OverLimit {
  network: string;
  agent: string;
  shed: number;
  shed_total: number;
  message: string;
}

/** Control ``agent.wait.blocked_behind``: what these waits hang on is deadlocked; they go on. */
export interface BlockedBehind {
  incident: string;
  cycle: string[];
  waits: string[];
}

/** Codes of errors so far; more may come. */
export type ErrorCode =
  | "bad_request"
  | "bad_id"
  | "too_large"
  | "unknown_verb"
  | "not_permitted"
  | "protocol_unknown"
  | "session_required"
  | "stale_session"
  | "unknown_session"
  | "session_used"
  | "id_conflict"
  | "not_subscribed"
  | "depth_limit"
  | "over_limit"
  | "unreachable"
  | "no_answer"
  | "no_reader"
  | "handler_failed"
  | "responder_lost"
  | "deadlock"
  | "expired"
  | "cancelled"
  | "outcome_forgotten"
  | "gateway_stopped"
  | "group_conflict"
  | "late_reply"
  | "foreign_reply"
  | "unknown_reply"
  | "duplicate_reply"
  | "stale_reply"
  | "pub_ack"
  | "unknown_wait"
  | "stale_generation";

/** Subjects of what a client sends, with the prefix `unknot`. */
export type SendSubject =
  | `unknot.${string}.in.${string}.send.${string}.${string}`
  | `unknot.${string}.in.${string}.ask.${string}.${string}`
  | `unknot.${string}.in.${string}.request.${string}.${string}`
  | `unknot.${string}.in.${string}.publish.${string}`
  | `unknot.${string}.in.${string}.reply.${string}`
  | `unknot.${string}.in.${string}.hello`
  | `unknot.${string}.in.${string}.heartbeat`
  | `unknot.${string}.in.${string}.bye`
  | `unknot.${string}.in.${string}.done`
  | `unknot.${string}.in.${string}.defer`
  | `unknot.${string}.in.${string}.facts`
  | `unknot.${string}.in.${string}.wait.open`
  | `unknot.${string}.in.${string}.wait.close`
  | `unknot.${string}.in.${string}.request.cancel`;

/** Subjects of what a client receives, with the prefix `unknot`. */
export type ReceiveSubject =
  | `unknot.${string}.out.${string}.${string}.event.${string}`
  | `unknot.${string}.out.${string}.${string}.outcome`
  | `unknot.${string}.out.${string}.${string}.control.confirm`
  | `unknot.${string}.out.${string}.${string}.control.request.abandoned`
  | `unknot.${string}.out.${string}.${string}.control.session.replaced`
  | `unknot.${string}.out.${string}.${string}.control.agent.wait.deadlock_detected`
  | `unknot.${string}.out.${string}.${string}.control.agent.wait.blocked_behind`
  | `unknot.${string}.channel.${string}.${string}`
  | `unknot.${string}.topic.${string}`
  | `unknot.${string}.notice.agent.wait.deadlock_detected`
  | `unknot.${string}.notice.agent.wait.blocked_behind`
  | `unknot.${string}.notice.agent.pools_differ`
  | `unknot.${string}.notice.agent.over_limit`;

/** Body of each operation, and what answers it on the NATS reply subject. */
export interface Operations {
  /** A one-way event. */
  "send": {
    does: "send";
    subject: `unknot.${string}.in.${string}.send.${string}.${string}`;
    body: Envelope;
    answer: Receipt;
  };
  /** A request; the sender goes on, its Outcome comes later. */
  "ask": {
    does: "send";
    subject: `unknot.${string}.in.${string}.ask.${string}.${string}`;
    body: Envelope;
    answer: Receipt;
  };
  /** A blocking request; its Outcome comes to the NATS reply subject, else to the outcome subject. */
  "request": {
    does: "send";
    subject: `unknot.${string}.in.${string}.request.${string}.${string}`;
    body: Envelope;
    answer: Outcome | Receipt;
  };
  /** An event without target. */
  "publish": {
    does: "send";
    subject: `unknot.${string}.in.${string}.publish.${string}`;
    body: Envelope;
    answer: Receipt;
  };
  /** An answer. */
  "reply": {
    does: "send";
    subject: `unknot.${string}.in.${string}.reply.${string}`;
    body: Envelope;
    answer: Receipt;
  };
  /** A session begins, or goes on after an epoch change. */
  "hello": {
    does: "send";
    subject: `unknot.${string}.in.${string}.hello`;
    body: Hello;
    answer: Welcome | Receipt;
  };
  /** What is open and held. */
  "heartbeat": {
    does: "send";
    subject: `unknot.${string}.in.${string}.heartbeat`;
    body: Heartbeat;
    answer: Pulse | Receipt;
  };
  /** The session ends. */
  "bye": {
    does: "send";
    subject: `unknot.${string}.in.${string}.bye`;
    body: Bye;
    answer: Receipt;
  };
  /** The handlers of these events have returned. */
  "done": {
    does: "send";
    subject: `unknot.${string}.in.${string}.done`;
    body: Done;
    answer: Receipt;
  };
  /** The answers come later. */
  "defer": {
    does: "send";
    subject: `unknot.${string}.in.${string}.defer`;
    body: Defer;
    answer: Receipt;
  };
  /** Answer to control confirm. */
  "facts": {
    does: "send";
    subject: `unknot.${string}.in.${string}.facts`;
    body: Facts;
    answer: Receipt;
  };
  /** An execution cannot go on until something is true. */
  "wait.open": {
    does: "send";
    subject: `unknot.${string}.in.${string}.wait.open`;
    body: WaitOpen;
    answer: Receipt;
  };
  /** A wait has ended on the agent's side. */
  "wait.close": {
    does: "send";
    subject: `unknot.${string}.in.${string}.wait.close`;
    body: WaitClose;
    answer: Receipt;
  };
  /** The answer is not wanted any more. */
  "request.cancel": {
    does: "send";
    subject: `unknot.${string}.in.${string}.request.cancel`;
    body: RequestCancel;
    answer: Receipt;
  };
  /** A delivered event; the NATS reply subject of a request is where its answer goes. */
  "event": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.event.${string}`;
    body: Delivered;
    answer: Envelope;
  };
  /** How a request or a wait ended. */
  "outcome": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.outcome`;
    body: Outcome;
    answer: null;
  };
  /** Asks where waits and requests stand. */
  "control.confirm": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.control.confirm`;
    body: Confirm;
    answer: null;
  };
  /** Nobody waits for this answer any more. */
  "control.request.abandoned": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.control.request.abandoned`;
    body: Abandoned;
    answer: null;
  };
  /** Another session has taken this one's place. */
  "control.session.replaced": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.control.session.replaced`;
    body: Replaced;
    answer: null;
  };
  /** Waits that can never end, one of them here. */
  "control.agent.wait.deadlock_detected": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.control.agent.wait.deadlock_detected`;
    body: DeadlockDetected;
    answer: null;
  };
  /** What these waits hang on is deadlocked. */
  "control.agent.wait.blocked_behind": {
    does: "receive";
    subject: `unknot.${string}.out.${string}.${string}.control.agent.wait.blocked_behind`;
    body: BlockedBehind;
    answer: null;
  };
  /** A one-way event for all members. */
  "channel": {
    does: "receive";
    subject: `unknot.${string}.channel.${string}.${string}`;
    body: Delivered;
    answer: null;
  };
  /** An event without target. */
  "topic": {
    does: "receive";
    subject: `unknot.${string}.topic.${string}`;
    body: Delivered;
    answer: null;
  };
  /** For monitors: Waits that can never end, one of them here. */
  "notice.agent.wait.deadlock_detected": {
    does: "receive";
    subject: `unknot.${string}.notice.agent.wait.deadlock_detected`;
    body: DeadlockDetected;
    answer: null;
  };
  /** For monitors: What these waits hang on is deadlocked. */
  "notice.agent.wait.blocked_behind": {
    does: "receive";
    subject: `unknot.${string}.notice.agent.wait.blocked_behind`;
    body: BlockedBehind;
    answer: null;
  };
  /** For monitors: Sessions of one agent serve different types. */
  "notice.agent.pools_differ": {
    does: "receive";
    subject: `unknot.${string}.notice.agent.pools_differ`;
    body: PoolsDiffer;
    answer: null;
  };
  /** For monitors: An agent sends more than it may, and is shed. */
  "notice.agent.over_limit": {
    does: "receive";
    subject: `unknot.${string}.notice.agent.over_limit`;
    body: OverLimit;
    answer: null;
  };
}
